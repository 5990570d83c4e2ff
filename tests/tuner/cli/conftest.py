"""Fixture: a new database, which the commands of one test use."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests import databases


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Yield the engine of a new database, which TUNER_DATABASE_URL names to the commands."""
    opened = databases.opened(tmp_path / "convtune.db")
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'convtune.db'}")
    yield opened
    opened.dispose()
