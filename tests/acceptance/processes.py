"""Worker processes on a SQLite file that the tests can read, and waiting for what they do."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
from sqlalchemy import Engine, text

import templates
from db import queue
from db.results import trials
from db.sql.transaction import writing
from tests import databases

ROOT = Path(__file__).parents[2]
SECONDS = 90.0

T = TypeVar("T")


class Database:
    """A migrated SQLite file; ``engine`` is the tests' own access to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "convtune.db"
        self.url = f"sqlite:///{self.path}"
        self.engine: Engine = databases.opened(self.path)

    def submit(self, shape: dict[str, Any], **order: Any) -> queue.Job:
        """Order a conv1d job for the CPU and return it.

        Peers are timed only if ``order`` asks for them, because that takes longer than a search.
        """
        workload = templates.operator("conv1d").workload.model_validate(shape)
        options: dict[str, Any] = {
            "target": "cpu", "trials": 12, "search": "random", "on_existing": "retune", "seed": 1,
            "baselines": "none",
        }  # fmt: skip
        job, _ = queue.submit(
            self.engine,
            queue.JobOrder(
                operator="conv1d",
                workload_key=workload.key,
                workload=workload.model_dump(),
                **options | order,
            ),
        )
        return job

    def trials(self, job: queue.Job) -> list[trials.Trial]:
        return trials.list_trials(self.engine, job.id, limit=1000).items

    def run_out(self, job: queue.Job) -> None:
        """Make the job's lease run out now."""
        with writing(self.engine) as connection:
            connection.execute(
                text("UPDATE jobs SET lease_expires_at = 0 WHERE id = :id"), {"id": job.id}
            )


class Worker:
    """A ``python -m tuner.worker --target cpu`` process and, once it has ended, its log's events.

    Its temporary files lie in ``folder``, where they stay if it is killed.
    """

    def __init__(
        self,
        database_url: str,
        folder: Path,
        *options: str,
        module: Sequence[str] = ("tuner.worker", "--target", "cpu"),
    ) -> None:
        environment = {
            "TMPDIR": str(folder),
            "TUNER_DATABASE_URL": database_url,
            "TUNER_LOG_FORMAT": "json",
            "TUNER_BUILD_WORKERS": "1",
            "TUNER_POLL_SECONDS": "0.1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", *module, *options],
            cwd=ROOT,
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def children(self) -> list[psutil.Process]:
        """Return the processes that the worker has started, and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def kill(self) -> None:
        """Kill the worker with SIGKILL."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> tuple[int, float]:
        """Ask the worker to end with SIGTERM; return its exit code and the seconds that it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.wait()
        return code, time.monotonic() - start

    def wait(self, seconds: float = SECONDS) -> int:
        said = self.process.communicate(timeout=seconds)[1]
        self.events = [json.loads(line) for line in said.splitlines()]
        return self.process.returncode

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return the log's events of this name; the worker must have ended."""
        return [each for each in self.events if each["event"] == event]


def alive(process: psutil.Process) -> bool:
    """Return whether the process runs. A zombie, which only waits for its parent, does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_server(child: psutil.Process) -> bool:
    """Return whether this child is a fork server, which forks the other children."""
    with suppress(psutil.Error):
        return "tuner.process.fork_server" in child.cmdline()
    return False


def started() -> set[psutil.Process]:
    """Return the living descendants of this process, without its fork servers.

    A fork server stays, because it forks the children that are started later.
    """
    ours = psutil.Process()
    servers = [child for child in ours.children() if is_server(child)]
    return {each for each in ours.children(recursive=True) if each not in servers and alive(each)}


def until(look: Callable[[], T], seconds: float = SECONDS, pause: float = 0.02) -> T:
    """Call ``look`` until it returns something true, and return that.

    Pause ``pause`` seconds between calls; fail after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(pause)
    return found


Start = Callable[..., Worker]
"""Starts a worker with these options."""
