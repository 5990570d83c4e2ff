"""Real libraries for this machine's CPU, and a service that has them, built and started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_process import Service
from small_libraries import build_all
from stored_best import store

from db import queue
from tuner.client import Client


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
    for job in queue.list_jobs(service.engine, "queued").items:
        queue.cancel(service.engine, job.id)
