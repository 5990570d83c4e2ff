"""Which bests have files that clients refuse."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, exists, not_, select

from db.results import chain
from db.sql.models import best_artifacts, bests, workloads


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
        why = chain.fault(connection, best.id, best.key)
        if why is not None:
            yield f"best {best.id} ({best.key}): {why}; tune it again, with --retune"


def unsigned(connection: Connection) -> int:
    """How many bests have an unsigned manifest, as those of older releases do."""

    def has(kind: str) -> Any:
        of_best = best_artifacts.c.best_id == bests.c.id
        return exists().where(of_best, best_artifacts.c.kind == kind)

    query = select(bests.c.id).where(has("manifest"), not_(has("signature")))
    return len(connection.execute(query).all())
