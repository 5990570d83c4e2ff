"""What a process writes to standard error beside its own events."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys
from tuner.process import logs
from tuner.process.stopping import Stopped
logs.configure(sys.argv[1])
library = logging.getLogger("sqlalchemy.pool.impl")
for raised in (OSError("the server is gone"), Stopped()):
    try:
        raise raised
    except BaseException:
        library.error("Exception during reset or similar", exc_info=True)
library.info("nobody asked")
"""


def said(log_format: str) -> list[str]:
    command = [sys.executable, "-c", SCRIPT, log_format]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == ""
    return ended.stderr.splitlines()


def test_a_librarys_fault_is_a_line_as_any_other_and_the_end_of_the_process_is_none() -> None:
    (line,) = map(json.loads, said("json"))
    assert (line["event"], line["level"]) == ("Exception during reset or similar", "error")
    assert line["timestamp"].endswith("Z")
    assert "OSError: the server is gone" in line["exception"]


@pytest.mark.parametrize("wanted", ["Exception during reset or similar", "the server is gone"])
def test_people_read_it_too(wanted: str) -> None:
    text = "\n".join(said("console"))
    assert text.count(wanted) == 1
    assert "Stopped" not in text
