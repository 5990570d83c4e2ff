"""An engine that was used before its process was forked."""

import subprocess
import sys

SCRIPT = """
import os, sys
from db.sql.engine import open_engine

engine = open_engine(sys.argv[1])

def used():
    with engine.connect() as connection:
        return connection.connection.dbapi_connection

before = used()
child = os.fork()
if child == 0:
    os._exit(used() is before)
print(os.waitpid(child, 0)[1], used() is before)
"""


def test_forked_process_opens_connections_of_its_own(blank_url: str) -> None:
    command = [sys.executable, "-c", SCRIPT, blank_url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "True"]
