"""Real libraries for this machine's CPU, and a service that has them, built and started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_process import Service
from small_libraries import AT_ONCE, BIASED, CALLED, GRADIENTS, SUMS, WORKLOADS, build_all
from stored_best import store

from db import queue
from db.contract.order import JobFilter
from db.sql.engine import migrate, open_engine
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.settings import Settings


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_all(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[Service]:
    """Tuned are ``full`` and ``depthwise`` of the small libraries."""
    running = Service(tmp_path_factory.mktemp("service"))
    store(running.engine, libraries["full-parallel"])
    store(running.engine, libraries["depthwise-serial"])
    yield running
    running.close()


@pytest.fixture
def client(service: Service, tmp_path: Path) -> Iterator[Client]:
    with Client(service.url, cache=tmp_path / "cache") as opened:
        yield opened
    for job in queue.list_jobs(service.engine, JobFilter(state="queued")).items:
        queue.cancel(service.engine, job.id)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Iterator[Local]:
    """A database with one library of each of the small workloads."""
    folder = tmp_path_factory.mktemp("local")
    settings = Settings(database_url=f"sqlite:///{folder / 'convtune.db'}")
    engine = open_engine(settings.database_url)
    migrate(engine)
    for name in (*WORKLOADS.keys() - {"full"}, *BIASED):
        store(engine, libraries[f"{name}-serial"])
    store(engine, libraries["full-parallel"])
    engine.dispose()
    with Local(settings, cache=folder / "cache") as opened:
        yield opened


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[Local]:
    """The same with gradients: of ``depthwise``, and of what takes a bias too."""
    folder = tmp_path_factory.mktemp("trained")
    settings = Settings(database_url=f"sqlite:///{folder / 'convtune.db'}")
    engine = open_engine(settings.database_url)
    migrate(engine)
    for name in ("depthwise", *BIASED, *GRADIENTS, *SUMS):
        store(engine, libraries[f"{name}-serial"])
    engine.dispose()
    with Local(settings, cache=folder / "cache") as opened:
        yield opened


@pytest.fixture(scope="module")
def at_once(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[Local]:
    """What takes a bias too, and all gradients of ``causal`` in one program."""
    folder = tmp_path_factory.mktemp("at-once")
    settings = Settings(database_url=f"sqlite:///{folder / 'convtune.db'}")
    engine = open_engine(settings.database_url)
    migrate(engine)
    for name in (*BIASED, *AT_ONCE):
        store(engine, libraries[f"{name}-serial"])
    engine.dispose()
    with Local(settings, cache=folder / "cache") as opened:
        yield opened


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Iterator[Local]:
    """What models call as a function."""
    folder = tmp_path_factory.mktemp("called")
    settings = Settings(database_url=f"sqlite:///{folder / 'convtune.db'}")
    engine = open_engine(settings.database_url)
    migrate(engine)
    for name in CALLED:
        store(engine, libraries[f"{name}-serial"])
    engine.dispose()
    with Local(settings, cache=folder / "cache") as opened:
        yield opened
