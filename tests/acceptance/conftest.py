"""Fixtures: a database file, Python's own signal handlers, and a bench to run jobs on."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Database, Start, Worker
from runs import Bench

from tuner.build.builder import Builder
from tuner.device.detect import detect
from tuner.settings import Settings


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path)
    yield opened
    opened.engine.dispose()


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Iterator[Start]:
    """A function that starts a worker with options and with ``tmp_path`` as TMPDIR.

    Workers that are still alive in the end are killed.
    """
    started: list[Worker] = []

    def one(*options: str) -> Worker:
        started.append(Worker(database.url, tmp_path, *options))
        return started[-1]

    yield one
    for worker in started:
        if worker.process.poll() is None:
            worker.kill()


@pytest.fixture
def handlers() -> Iterator[None]:
    """Python's default signal handlers; restore the former ones afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """The CPU and two builders, for all tests of the session."""
    with Builder(2, cache=Settings().build_cache) as builder:
        yield Bench(detect("cpu"), builder)
