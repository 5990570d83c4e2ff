"""Messages of libraries in the service's log have the format of its own events."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys
from api.server import logs
logs.configure(sys.argv[1])
library = logging.getLogger("sqlalchemy.pool.impl")
gone = OSError("the server is gone")
try:
    raise gone
except OSError:
    library.error("Exception during reset or similar", exc_info=True)
library.info("nobody asked")
"""


def said(log_format: str) -> str:
    command = [sys.executable, "-c", SCRIPT, log_format]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == ""
    return ended.stderr


def test_error_of_a_library_is_one_json_line_in_the_log() -> None:
    (line,) = map(json.loads, said("json").splitlines())
    assert (line["event"], line["level"]) == ("Exception during reset or similar", "error")
    assert line["timestamp"].endswith("Z")
    assert line["exception"][0]["exc_value"] == "the server is gone"


@pytest.mark.parametrize("wanted", ["Exception during reset or similar", "the server is gone"])
def test_console_log_shows_an_error_of_a_library_once(wanted: str) -> None:
    text = said("console")
    assert text.count(wanted) == 1
    assert "[error" in text


LOST = """
import structlog
from api.server import logs
logs.configure("json")
structlog.get_logger("api.request").info("of no use")
print("goes on", flush=True)
"""


@pytest.mark.parametrize("where", ["2> /dev/full", "2>&-"])
def test_process_goes_on_if_its_log_can_not_be_written(where: str) -> None:
    """The process goes on if stderr is full or closed."""
    command = ["bash", "-c", f'"$0" -c "$1" {where}', sys.executable, LOST]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "goes on\n"
