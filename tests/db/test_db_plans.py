"""Query plans with thousands of jobs: a test fails if a query no longer uses its index."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, select, text
from storage_rows import submitted

from db import queue
from db.contract.order import JobFilter
from db.sql.tables import jobs, metadata
from db.sql.transaction import reading, writing


@pytest.fixture(autouse=True)
def unknown_to_the_planner(engine: Engine) -> Iterator[None]:
    """Make PostgreSQL's planner know nothing of the tables, as if they were new.

    After the DELETE by which tests clear the tables, the planner still knows their former sizes. If
    PostgreSQL starts a VACUUM by itself while a test inserts rows, the planner gets false sizes.
    """
    if engine.dialect.name != "postgresql":
        yield
        return
    with writing(engine) as connection:
        connection.execute(text("ALTER TABLE jobs SET (autovacuum_enabled = false)"))
        connection.execute(text(f"TRUNCATE {', '.join(metadata.tables)}"))
    yield
    with writing(engine) as connection:
        connection.execute(text("ALTER TABLE jobs RESET (autovacuum_enabled)"))


def fill(engine: Engine, state: str, count: int, *, analyse: bool = True) -> None:
    """Store ``count`` jobs in one state and one queued job; run ANALYZE on PostgreSQL."""
    waiting = submitted(engine, count).id
    with writing(engine) as connection:
        like = select(jobs).where(jobs.c.id == waiting)
        row = {**connection.execute(like).mappings().one(), "state": state}
        del row["seq"]
        copies = [
            {**row, "id": f"{count:08x}{n:024x}", "order_key": f"{count} {n}"} for n in range(count)
        ]
        connection.execute(insert(jobs), copies)
        if analyse and engine.dialect.name == "postgresql":  # convtune never analyzes SQLite
            connection.execute(text("ANALYZE"))


def plans(engine: Engine, action: Callable[[], object], part: str) -> list[str]:
    """Return the plans of the action's statements that contain ``part``."""
    seen: list[tuple[str, Any]] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _x: Any, _m: bool) -> None:
        if part in statement:
            seen.append((statement, parameters))

    action()
    event.remove(engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    with reading(engine) as connection:
        return [
            "\n".join(str(row) for row in connection.exec_driver_sql(explain + sql, values))
            for sql, values in seen
        ]


@pytest.mark.parametrize("state", ["succeeded", "queued"])
def test_claim_reads_unfinished_jobs_by_index_without_sorting(engine: Engine, state: str) -> None:
    fill(engine, state, 3000)
    claim = plans(engine, lambda: queue.claim(engine, "worker", ["cuda"]), "LIMIT")
    assert len(claim) == 1
    assert "ix_jobs_claim" in claim[0], claim[0]
    for wasteful in ("Seq Scan on jobs", "SCAN jobs'", "TEMP B-TREE", "Sort", "Bitmap"):
        assert wasteful not in claim[0], claim[0]


@pytest.mark.parametrize("analysed", [True, False])
@pytest.mark.parametrize("dialect", ["postgresql"])
def test_claim_does_not_sort_a_queue_that_grew_since_analyze(
    engine: Engine, *, analysed: bool
) -> None:
    """A claim uses the index even if PostgreSQL expects few rows.

    Until its next ANALYZE it has old statistics of the table, or none.
    """
    fill(engine, "succeeded", 10, analyse=analysed)
    fill(engine, "queued", 3000, analyse=False)
    claim = plans(engine, lambda: queue.claim(engine, "worker", ["cuda"]), "LIMIT")
    assert "Index Scan using ix_jobs_claim" in claim[0], claim[0]
    assert "Sort" not in claim[0], claim[0]


def test_rare_states_are_listed_without_reading_the_others(engine: Engine) -> None:
    fill(engine, "succeeded", 3000)
    for state, index in (("failed", "ix_jobs_ended"), ("running", "ix_jobs_claim")):
        [listing] = plans(
            engine, lambda s=state: queue.list_jobs(engine, JobFilter(state=s)), "ORDER BY"
        )  # type: ignore[misc]
        assert index in listing, listing
