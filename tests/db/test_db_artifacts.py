"""Artifacts are stored under the SHA-256 of their bytes, and damaged ones are refused."""

import hashlib

import pytest
from sqlalchemy import Engine, event, update
from storage_rows import everything

from db.results import artifacts
from db.sql import tables
from db.sql.errors import CorruptArtifact, NotFound
from db.sql.transaction import writing

CONTENT = bytes(range(256)) * 300


def spoil(engine: Engine, sha256: str) -> None:
    flipped = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
    with writing(engine) as connection:
        statement = update(tables.artifacts).where(tables.artifacts.c.sha256 == sha256)
        connection.execute(statement.values(content=flipped))


def test_bytes_come_back_under_their_hash(engine: Engine) -> None:
    sha256 = artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    assert sha256 == hashlib.sha256(CONTENT).hexdigest()
    kept = artifacts.get(engine, sha256)
    assert kept.content == CONTENT
    assert (kept.sha256, kept.size, kept.kind) == (sha256, len(CONTENT), "library")
    assert kept.media_type == "application/x-sharedlib"
    assert kept.created_at.tzname() == "UTC"


def test_putting_again_changes_nothing(engine: Engine) -> None:
    first = artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    before = everything(engine)
    assert artifacts.put(engine, CONTENT, "source", "text/plain") == first
    assert everything(engine) == before


def test_bytes_that_rotted_are_refused_and_healed_by_putting_them_again(engine: Engine) -> None:
    """Damaged bytes raise CorruptArtifact; storing the same artifact again repairs them."""
    sha256 = artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    spoil(engine, sha256)
    with pytest.raises(CorruptArtifact, match=sha256):
        artifacts.get(engine, sha256)
    artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    assert artifacts.get(engine, sha256).content == CONTENT


def test_info_does_not_read_the_bytes(engine: Engine) -> None:
    sha256 = artifacts.put(engine, CONTENT, "manifest", "application/json")
    statements: list[str] = []
    event.listen(
        engine, "before_cursor_execute", lambda *seen: statements.append(seen[2]), named=False
    )
    known = artifacts.info(engine, sha256)
    assert (known.size, known.kind) == (len(CONTENT), "manifest")
    assert statements
    assert not any("content" in statement for statement in statements)


@pytest.mark.parametrize("name", ["0" * 64, "", "\0", "\ud800", "../etc"])
def test_what_is_not_there(engine: Engine, name: str) -> None:
    with pytest.raises(NotFound, match="no artifact"):
        artifacts.get(engine, name)
    with pytest.raises(NotFound, match="no artifact"):
        artifacts.info(engine, name)
