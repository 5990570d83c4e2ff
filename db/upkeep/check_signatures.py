"""Whether the files of each best are those that its worker signed: from the signature of the
manifest to the bytes of library, source and record."""

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, exists, not_, select

from db.results import signed
from db.results.signers import is_registered
from db.sql.models import artifacts, best_artifacts, bests, workloads

NAMED = ("library", "source", "record")
"""The files that a manifest names, each with its sha256 and its size."""


def broken_chains(connection: Connection) -> Iterator[str]:
    """A line for each best whose signature does not hold for it, one best at a time."""
    of_best = best_artifacts.c.best_id == bests.c.id
    query = (
        select(bests.c.id, workloads.c.key)
        .join(workloads)
        .where(exists().where(of_best, best_artifacts.c.kind == "signature"))
        .order_by(bests.c.id)
    )
    for best in connection.execute(query).all():
        why = _fault(connection, best)
        if why is not None:
            yield f"best {best.id} ({best.key}): {why}; tune it again"


def unsigned(connection: Connection) -> int:
    """How many bests have an unsigned manifest, as those of older releases do."""

    def has(kind: str) -> Any:
        of_best = best_artifacts.c.best_id == bests.c.id
        return exists().where(of_best, best_artifacts.c.kind == kind)

    query = select(bests.c.id).where(has("manifest"), not_(has("signature")))
    return len(connection.execute(query).all())


def _fault(connection: Connection, best: Row[Any, Any]) -> str | None:
    query = (
        select(best_artifacts.c.kind, artifacts.c.sha256, artifacts.c.size)
        .join(artifacts, artifacts.c.sha256 == best_artifacts.c.sha256)
        .where(best_artifacts.c.best_id == best.id)
    )
    files = {row.kind: row for row in connection.execute(query)}
    if not {"signature", "manifest"} <= set(files):
        return "its signature or its manifest is missing"
    manifest = _content(connection, files["manifest"].sha256)
    try:
        found = signed.parse(_content(connection, files["signature"].sha256))
        found.check(manifest)
    except signed.BadSignature as error:
        return f"its signature {error}"
    if not is_registered(connection, found.public_key):
        return f"it is signed by {found.fingerprint}, which no worker has registered"
    try:
        said = json.loads(manifest)
        named = {kind: (said[kind]["sha256"], said[kind]["size"]) for kind in NAMED}
        key = said["workload_key"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        return f"its manifest can't be read ({error!r})"
    for kind in NAMED:
        has = (files[kind].sha256, files[kind].size) if kind in files else None
        if has != named[kind]:
            return f"its {kind} is not the one that its signed manifest names"
    return None if key == best.key else "its signed manifest is of another workload"


def _content(connection: Connection, sha256: str) -> bytes:
    query = select(artifacts.c.content).where(artifacts.c.sha256 == sha256)
    return bytes(connection.execute(query).scalar_one())
