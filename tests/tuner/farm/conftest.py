"""Fixtures: a tracker and two RPC servers, started once for each module of tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.farm.farmed import Server, Tracker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("farm")


@pytest.fixture(scope="module")
def tracker(folder: Path) -> Iterator[Tracker]:
    started = Tracker(folder)
    yield started
    started.kill()


@pytest.fixture(scope="module")
def servers(folder: Path, tracker: Tracker) -> Iterator[list[Server]]:
    """Yield two ready servers under the tracker's key ``pair``."""
    started = [Server(folder, f"server-{n}", tracker, "pair") for n in range(2)]
    yield [each.ready() for each in started]
    for each in started:
        each.stop()
