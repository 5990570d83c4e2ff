"""Checking the signatures of bests: clients refuse files whose signature is invalid or missing."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, exists, not_, select

from db.results.verify_signature import signature_fault
from db.sql.tables import best_artifacts, bests, workloads


def invalid_signatures(connection: Connection) -> Iterator[str]:
    """Yield a finding for each signed best whose files clients would refuse. Only one best's files
    are in memory at a time."""
    of_best = best_artifacts.c.best_id == bests.c.id
    query = (
        select(bests.c.id, workloads.c.key)
        .join(workloads)
        .where(exists().where(of_best, best_artifacts.c.kind == "signature"))
        .order_by(bests.c.id)
    )
    for best in connection.execute(query).all():
        why = signature_fault(connection, best.id, best.key)
        if why is not None:
            yield f"best {best.id} ({best.key}): {why}; tune it again, with --retune"


def count_unsigned(connection: Connection) -> int:
    """Return the number of bests that have a manifest but no signature, as bests of older releases
    do."""

    def has(kind: str) -> Any:
        of_best = best_artifacts.c.best_id == bests.c.id
        return exists().where(of_best, best_artifacts.c.kind == kind)

    query = select(bests.c.id).where(has("manifest"), not_(has("signature")))
    return len(connection.execute(query).all())
