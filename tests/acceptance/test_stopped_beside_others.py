"""A search that is interrupted while another worker is alive: that worker goes on with the job.

The user is told so, and can have the job cancelled.
"""

import os
import pty
import signal
import subprocess
import sys

import pytest
from processes import ROOT, SECONDS, Database, until

from db import queue
from db.fleet import devices, workers
from tuner.device import cpu_facts

SHAPE = ["conv1d", "--M", "512", "--N", "8"]
TUNE = ["tune", *SHAPE, "--trials", "300", "--target", "cpu", "--baselines", "none"]
LOCAL = """
import signal
from tuner.client.local import Local
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
try:
    Local().tune("conv1d", M=512, N=8, trials=300, target="cpu", baselines="none")
except KeyboardInterrupt as stopped:
    print(*getattr(stopped, "__notes__", ["nobody goes on"]))
"""


@pytest.fixture
def other(database: Database) -> None:
    """The entry of a worker that is alive, by its heartbeat, but takes no job."""
    device = devices.upsert_device(database.engine, cpu_facts.device().fingerprint())
    workers.beat(
        database.engine, "w", host="h", pid=1, device_id=device.id, version="0", job_id=None
    )


def started(database: Database, *command: str, **given: object) -> subprocess.Popen[str]:
    """Start a command, wait until its job runs, and send it SIGINT."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TUNER_DATABASE_URL": database.url,
        "TUNER_BUILD_WORKERS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=database.path.parent,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        **{"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE} | given,  # type: ignore[call-overload]
    )
    until(lambda: any(job.state == "running" for job in queue.list_jobs(database.engine).items))
    process.send_signal(signal.SIGINT)
    return process


def only_job(database: Database) -> queue.Job:
    (job,) = queue.list_jobs(database.engine).items
    return job


def test_interrupted_tune_names_the_job_and_how_to_cancel_it(
    database: Database, other: None
) -> None:
    process = started(database, "-m", "tuner", *TUNE)
    said, complained = process.communicate(timeout=SECONDS)
    job = only_job(database)
    assert (said, process.returncode, job.state) == ("", 130, "queued")
    assert complained.splitlines()[-1] == (
        f"tuner: stopped here; another worker goes on with job {job.id}; "
        f"to cancel it: tuner jobs cancel {job.id}"
    )


@pytest.mark.parametrize(("answer", "state"), [("y", "cancelled"), ("n", "queued")])
def test_interrupted_tune_on_a_terminal_offers_to_cancel_the_job(
    database: Database, other: None, answer: str, state: str
) -> None:
    keyboard, terminal = pty.openpty()
    try:
        process = started(database, "-m", "tuner", *TUNE, stdin=terminal, stderr=terminal)
        os.write(keyboard, f"{answer}\n".encode())
        seen = b""
        while b"tuner: " not in seen:
            seen += os.read(keyboard, 4096)
        assert process.wait(SECONDS) == 130
        assert b"another worker goes on with job" in seen and b"Cancel it? [y/N]" in seen
    finally:
        os.close(keyboard)
        os.close(terminal)
        process.communicate()
    assert only_job(database).state == state


def test_interrupted_local_tune_notes_how_to_cancel_the_job(
    database: Database, other: None
) -> None:
    """The KeyboardInterrupt from ``Local.tune`` has a note with the command that cancels."""
    said = started(database, "-c", LOCAL).communicate(timeout=SECONDS)[0]
    job = only_job(database)
    assert said == f"the job goes on elsewhere; to cancel it: tuner jobs cancel {job.id}\n"


def test_interrupted_local_tune_has_no_note_if_no_other_worker_is_alive(database: Database) -> None:
    """If no other worker is alive, nobody goes on, and the exception has no note."""
    said = started(database, "-c", LOCAL).communicate(timeout=SECONDS)[0]
    assert said == "nobody goes on\n"
    assert only_job(database).state == "queued"
