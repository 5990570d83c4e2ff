"""A port that is in use: the service ends with one line and has started nothing."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", [["api"], ["tuner", "serve"]], ids=["api", "tuner serve"])
def test_service_ends_with_one_line_if_its_port_is_taken(
    tmp_path: Path, command: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TUNER_PORT": str(port)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: can't listen on 127.0.0.1, port {port}: Address already in")
    assert line.endswith("choose others with TUNER_HOST and TUNER_PORT")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "says"),
    [
        (
            "192.0.2.1",
            "can't listen on 192.0.2.1, port 0: Cannot assign requested address; "
            "choose an address of this machine with TUNER_HOST",
        ),
        (
            "1.2.3.4.5",
            "can't resolve the host 1.2.3.4.5: Name or service not known; "
            "choose an address of this machine with TUNER_HOST",
        ),
        (
            "a..b",
            "can't resolve the host a..b: it is no host name; "
            "choose an address of this machine with TUNER_HOST",
        ),
    ],
    ids=["of another machine", "unknown", "no host name"],
)
def test_service_ends_with_one_line_if_its_host_is_not_local(
    tmp_path: Path, host: str, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "api"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TUNER_HOST": host, "TUNER_PORT": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, f"error: {says}\n")
