"""Artifacts: files named by their SHA-256. Their bytes are in the database, so that it holds the
whole state."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Engine, Select, select
from sqlalchemy.engine import RowMapping

from db.sql.columns import now, storable, upsert, utc
from db.sql.errors import CorruptArtifact, NotFound
from db.sql.tables import artifacts
from db.sql.transaction import reading, writing

ArtifactKind = Literal["library", "source", "manifest", "record", "signature"]


@dataclass(frozen=True)
class NewArtifact:
    """A file to store."""

    content: bytes
    kind: ArtifactKind
    media_type: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class ArtifactInfo:
    """A stored file without its bytes."""

    sha256: str
    size: int  # bytes
    kind: ArtifactKind
    media_type: str
    created_at: datetime


@dataclass(frozen=True)
class Artifact(ArtifactInfo):
    """A stored file with its bytes."""

    content: bytes


def put(engine: Engine, content: bytes, kind: ArtifactKind, media_type: str) -> str:
    """Store bytes under their SHA-256, and return it. Storing them again changes nothing."""
    with writing(engine) as connection:
        return write(connection, NewArtifact(content, kind, media_type))


def get(engine: Engine, sha256: str) -> Artifact:
    """Return a file with its bytes. Raises NotFound, and CorruptArtifact if the stored bytes do not
    hash to their name."""
    row = _find(engine, sha256, select(artifacts))
    if hashlib.sha256(row["content"]).hexdigest() != sha256:
        raise CorruptArtifact(sha256)
    return Artifact(**_info(row), content=row["content"])


def info(engine: Engine, sha256: str) -> ArtifactInfo:
    """Return the facts that are stored about a file, without reading its bytes. Raises NotFound."""
    columns = (column for column in artifacts.c if column.name != "content")
    return ArtifactInfo(**_info(_find(engine, sha256, select(*columns))))


def write(connection: Connection, new: NewArtifact) -> str:
    """Store a file as `put` does, within the caller's transaction, and return its SHA-256. Other
    bytes that are stored under that name are damaged, and are replaced."""
    sha256 = new.sha256
    statement = upsert(connection, artifacts).values(
        sha256=sha256,
        size=len(new.content),
        kind=new.kind,
        media_type=new.media_type,
        content=new.content,
        created_at=now(),
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[artifacts.c.sha256],
            set_={"content": new.content},
            where=artifacts.c.content != new.content,
        )
    )
    return sha256


def _find(engine: Engine, sha256: str, query: Select[Any]) -> RowMapping:
    row = None
    if storable(sha256):
        with reading(engine) as connection:
            query = query.where(artifacts.c.sha256 == sha256)
            row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound("artifact", sha256)
    return row


def _info(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in ("sha256", "size", "kind", "media_type")} | {
        "created_at": utc(row["created_at"])
    }
