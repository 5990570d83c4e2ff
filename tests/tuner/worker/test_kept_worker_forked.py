"""A kept worker in a process that was forked while another thread had its turn."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys, threading
from tuner.device.detect import detect
from tuner.settings import Settings
from tuner.worker.kept_worker import KeptWorker
from db.sql.engine import migrate, open_engine

engine = open_engine(sys.argv[1])
migrate(engine)
kept = KeptWorker(engine, Settings(database_url=sys.argv[1]))
device = detect("cpu")
inside, go_on = threading.Event(), threading.Event()

def hold():
    with kept.acquire(device):
        inside.set()
        go_on.wait()

thread = threading.Thread(target=hold)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    with kept.acquire(device):
        print("the child had its turn", flush=True)
    os._exit(0)
os.waitpid(child, 0)
go_on.set()
thread.join()
kept.close()
"""


def test_kept_worker_gives_a_turn_to_a_forked_child(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, f"sqlite:///{tmp_path / 'convtune.db'}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    assert done.stdout == "the child had its turn\n"
