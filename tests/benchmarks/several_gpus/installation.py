"""Start workers, a tracker and RPC servers as processes, as a user does, and order jobs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

import templates
from db import queue
from db.contract.job import Job
from db.contract.order import JobOrder

KEY = "gpu"


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the end of the block, with its output appended to a log."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            command, env=os.environ | (environment or {}), stdout=said, stderr=said
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def worker(database: str, builders: int, *options: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of ``tuner worker``."""
    environment = {
        "TUNER_DATABASE_URL": database,
        "TUNER_BUILD_WORKERS": str(builders),
        "TUNER_POLL_SECONDS": "0.2",
        "TUNER_LOG_FORMAT": "json",
    }
    return [sys.executable, "-m", "tuner.worker", *options], environment


@contextmanager
def tracker(log: Path) -> Iterator[str]:
    """Run TVM's tracker during the block and yield its host and port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    listening = ["--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1)]
    with running([sys.executable, "-m", "tvm.exec.rpc_tracker", *listening], log):
        until(lambda: _answers(port), 60)
        yield f"127.0.0.1:{port}"


@contextmanager
def servers(address: str, gpus: str, log: Path) -> Iterator[None]:
    """Run an RPC server for each of the GPUs during the block. All have started when it begins."""
    offered = ["--tracker", address, "--key", KEY, "--gpus", gpus]
    with running([sys.executable, "-m", "tuner.cli.app", "rpc-server", *offered], log):
        wanted = len(gpus.split(","))
        until(lambda: log.read_text().count("rpc_server_started") >= wanted, 120)
        yield


def submit(engine: Engine, operator: str, shape: dict[str, Any], **order: Any) -> Job:
    workload = templates.operator(operator).workload.model_validate(shape)
    options = {"search": "xgb", "target": "cuda", "on_existing": "retune"}
    options |= {"seed": 1, "warm_start": False}
    job, _ = queue.submit(engine, JobOrder.of(workload, **options | order))
    return job


def ended(engine: Engine, jobs: Sequence[Job], seconds: float) -> list[Job]:
    """Wait until all jobs have ended, for ``seconds`` at most, and return them.

    Raise AssertionError if a job failed or the time is up.
    """
    ids = [job.id for job in jobs]

    def look() -> list[Job] | None:
        now = [queue.get(engine, each) for each in ids]
        return None if any(job.state in ("queued", "running") for job in now) else now

    found = until(look, seconds)
    assert all(job.state == "succeeded" for job in found), [job.error for job in found]
    return found


def until(look: Callable[[], Any], seconds: float) -> Any:
    """Return the first true result of ``look``. Raise AssertionError if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.1)
    return found


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
