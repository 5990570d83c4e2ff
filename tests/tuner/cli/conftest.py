"""A database of its own for the commands of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests import databases


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """That of the database which the commands find."""
    opened = databases.opened(tmp_path / "convtune.db")
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'convtune.db'}")
    yield opened
    opened.dispose()
