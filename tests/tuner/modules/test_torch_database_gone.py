"""If the database is gone or damaged, PyTorch computes the model, and the report says why."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored_best import store

from db.sql.engine import migrate, open_engine
from db.sql.errors import DatabaseUnavailable
from tuner.client.local import Local
from tuner.settings import Settings

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "convtune.db"


@pytest.fixture
def own(database: Path, libraries: dict[str, Path]) -> Iterator[Local]:
    """Yield a source with a database of its own, which a test may damage."""
    settings = Settings(database_url=f"sqlite:///{database}")
    engine = open_engine(settings.database_url)
    migrate(engine)
    store(engine, libraries["biased-serial"])
    engine.dispose()
    with Local(settings, cache=database.parent / "cache") as source:
        yield source


def plain(block: Block, y: Any) -> Any:
    return block.same(y)


def spoil(database: Path) -> None:
    for path in database.parent.glob("convtune.db-*"):
        path.unlink()
    database.write_bytes(b"no database" * 500)


@pytest.mark.parametrize("on_missing", ["fallback", "tune", "predicted"])
def test_report_says_that_the_database_is_not_available(
    own: Local, database: Path, x: Any, on_missing: Any
) -> None:
    model = Block(plain).eval()
    expected = outputs(model, x)
    spoil(database)
    report = optimize_(model, x, source=own, on_missing=on_missing)
    assert "is not available: " in report.rows[0].reason
    assert torch.equal(outputs(model, x), expected)
    with pytest.raises(DatabaseUnavailable, match="tuner db restore"):
        optimize_(model, x, source=own, on_missing="raise")


def test_pytorch_computes_new_shapes_once_the_database_is_gone(
    own: Local, database: Path, x: Any
) -> None:
    model = Block(plain).eval()
    more = torch.cat([x, x])
    expected = outputs(model, x), outputs(model, more)
    model.conv.bias = torch.nn.Parameter(torch.zeros(6))
    assert optimize_(model, x, source=own).tuned == 1
    spoil(database)
    assert close(outputs(model, x), expected[0])
    assert model.conv.used == "tuned"
    assert close(outputs(model, more), expected[1])
    assert (model.conv.used, "is not available" in model.conv.reason) == ("pytorch", True)


def test_report_says_that_a_library_is_damaged(own: Local, database: Path, x: Any) -> None:
    model = Block(plain).eval()
    model.conv.bias = torch.nn.Parameter(torch.zeros(6))
    with sqlite3.connect(database) as connection:
        connection.execute("update artifacts set content = x'00'")
    connection.close()
    (row,) = optimize_(model, x, source=own).rows
    assert row.by == "pytorch"
    assert "do not match their name; tune its workload again" in row.reason
