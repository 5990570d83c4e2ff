from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Database
from runs import Bench

from tuner.detect import detect
from tuner.measure.builder import Builder


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path)
    yield opened
    opened.engine.dispose()


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    with Builder(2) as builder:
        yield Bench(detect("cpu"), builder)
