"""The log of a process on standard error, with the messages of other libraries."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys
from tuner.process import logs
logs.configure(sys.argv[1])
library = logging.getLogger("sqlalchemy.pool.impl")
try:
    raise OSError("the server is gone")
except OSError:
    library.error("Exception during reset or similar", exc_info=True)
library.info("nobody asked")
"""


def said(log_format: str) -> list[str]:
    command = [sys.executable, "-c", SCRIPT, log_format]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == ""
    return ended.stderr.splitlines()


def test_error_of_a_library_is_one_line_of_json() -> None:
    (line,) = map(json.loads, said("json"))
    assert (line["event"], line["level"]) == ("Exception during reset or similar", "error")
    assert line["timestamp"].endswith("Z")
    assert "OSError: the server is gone" in line["exception"]


@pytest.mark.parametrize("wanted", ["Exception during reset or similar", "the server is gone"])
def test_error_of_a_library_appears_once_in_the_console_format(wanted: str) -> None:
    assert "\n".join(said("console")).count(wanted) == 1


IN_TURNS = """
import io, sys
import structlog
from tuner.process import logs
first, usual = io.StringIO(), sys.stderr
sys.stderr = first
logs.configure("console")
log = structlog.get_logger()
log.warning("into the first")
sys.stderr = usual
first.close()
log.warning("into the usual one")
"""


def test_log_writes_to_the_current_standard_error() -> None:
    """The log writes to what ``sys.stderr`` is at each event. A user's pytest, for example,
    replaces it in each test and closes it afterwards."""
    command = [sys.executable, "-c", IN_TURNS]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, "into the usual one" in ended.stderr) == (0, True)


LOST = """
import sys
import structlog
from tuner.process import logs
logs.configure("console")
structlog.get_logger().warning("of no use")
print("goes on", flush=True)
"""


@pytest.mark.parametrize("where", ["2> /dev/full", "2>&-"])
def test_log_line_that_cannot_be_written_is_dropped(where: str) -> None:
    command = ["bash", "-c", f'"$0" -c "$1" {where}', sys.executable, LOST]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "goes on\n"
