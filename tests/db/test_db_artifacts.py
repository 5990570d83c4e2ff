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


def test_artifact_is_read_back_by_the_sha256_of_its_bytes(engine: Engine) -> None:
    sha256 = artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    assert sha256 == hashlib.sha256(CONTENT).hexdigest()
    kept = artifacts.get(engine, sha256)
    assert kept.content == CONTENT
    assert (kept.sha256, kept.size, kept.kind) == (sha256, len(CONTENT), "library")
    assert kept.media_type == "application/x-sharedlib"
    assert kept.created_at.tzname() == "UTC"


def test_putting_the_same_bytes_again_changes_nothing(engine: Engine) -> None:
    first = artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    before = everything(engine)
    assert artifacts.put(engine, CONTENT, "source", "text/plain") == first
    assert everything(engine) == before


def test_damaged_artifact_is_refused_until_it_is_stored_again(engine: Engine) -> None:
    """Damaged bytes raise CorruptArtifact; storing the same artifact again repairs them."""
    sha256 = artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    spoil(engine, sha256)
    with pytest.raises(CorruptArtifact, match=sha256):
        artifacts.get(engine, sha256)
    artifacts.put(engine, CONTENT, "library", "application/x-sharedlib")
    assert artifacts.get(engine, sha256).content == CONTENT


def test_info_of_an_artifact_does_not_read_its_bytes(engine: Engine) -> None:
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
def test_unknown_artifact_raises_not_found(engine: Engine, name: str) -> None:
    with pytest.raises(NotFound, match="no artifact"):
        artifacts.get(engine, name)
    with pytest.raises(NotFound, match="no artifact"):
        artifacts.info(engine, name)
