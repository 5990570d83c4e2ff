"""Fixtures: libraries that are really built for this machine's CPU, and databases and a service
that have them as bests. They are built and started once for many tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from service_process import Service
from small_libraries import (
    AT_ONCE,
    BIASED,
    CALLED,
    GATED,
    GRADIENTS,
    SUMS,
    WORKLOADS,
    build_all,
)
from stored_best import store

from db import queue
from db.contract.order import JobFilter
from db.sql.engine import open_engine
from tests import databases
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.device import cpu_facts
from tuner.device.device import Device
from tuner.settings import Settings


@pytest.fixture(scope="session")
def device() -> Device:
    """This machine's CPU."""
    return cpu_facts.device()


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the small libraries; return their paths by name, such as ``full-serial``."""
    return build_all(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[Service]:
    """Yield a running service whose bests are ``full`` and ``depthwise`` of the small libraries."""
    running = Service(tmp_path_factory.mktemp("service"))
    store(running.engine, libraries["full-parallel"])
    store(running.engine, libraries["depthwise-serial"])
    yield running
    running.close()


@pytest.fixture
def client(service: Service, tmp_path: Path) -> Iterator[Client]:
    """Yield a client of the service with an empty cache; afterwards cancel all queued jobs."""
    with Client(service.url, cache=tmp_path / "cache") as opened:
        yield opened
    for job in queue.list_jobs(service.engine, JobFilter(state="queued")).items:
        queue.cancel(service.engine, job.id)


@contextmanager
def local(
    temporary: pytest.TempPathFactory, libraries: dict[str, Path], *names: str
) -> Iterator[Local]:
    """Yield a new local database whose bests are the named libraries."""
    folder = temporary.mktemp("local")
    settings = Settings(database_url=databases.created(folder / "convtune.db"))
    engine = open_engine(settings.database_url)
    for name in names:
        store(engine, libraries[name])
    engine.dispose()
    with Local(settings, cache=folder / "cache") as opened:
        yield opened


def serial(*names: str) -> list[str]:
    return [f"{name}-serial" for name in names]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Iterator[Local]:
    """Yield a database with one library of each workload of WORKLOADS and BIASED."""
    names = serial(*(WORKLOADS.keys() - {"full"}), *BIASED)
    with local(tmp_path_factory, libraries, *names, "full-parallel") as opened:
        yield opened


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[Local]:
    """Yield a database with ``depthwise``, the BIASED workloads, and gradients: one library for
    each workload of GRADIENTS, and the sums of ``causal``."""
    names = serial("depthwise", *BIASED, *GRADIENTS, *SUMS)
    with local(tmp_path_factory, libraries, *names) as opened:
        yield opened


@pytest.fixture(scope="module")
def at_once(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[Local]:
    """Yield a database with the BIASED workloads and one library that computes all gradients of
    ``causal``."""
    with local(tmp_path_factory, libraries, *serial(*BIASED, *AT_ONCE)) as opened:
        yield opened


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Iterator[Local]:
    """Yield a database with the workloads that the tests' models call as a function."""
    with local(tmp_path_factory, libraries, *serial(*CALLED)) as opened:
        yield opened


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Iterator[Local]:
    """Yield a database with the same workloads, also between gates."""
    with local(tmp_path_factory, libraries, *serial(*CALLED, *GATED)) as opened:
        yield opened
