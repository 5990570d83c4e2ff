"""Reclaiming the disk space of deleted rows."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Engine, func, not_, select, text
from sqlalchemy.exc import OperationalError

from db.queue.lease import expired
from db.sql.errors import DatabaseUnavailable
from db.sql.tables import artifacts, jobs, listed_configs, trials
from db.sql.transaction import one_read, one_write, reading

PRUNED_TABLES = (trials, listed_configs, artifacts)


@dataclass(frozen=True)
class Space:
    """What became of the space of deleted rows."""

    how: Literal["vacuum", "reused"]
    """`vacuum`: SQLite's file has shrunk, and PostgreSQL's tables have space for new rows.
    `reused`: VACUUM was not run, and SQLite's file keeps the space for new rows."""
    bytes: int  # of the whole database afterwards


def reclaim(engine: Engine) -> Space:
    """Run VACUUM, and return what became of the space.

    On SQLite, VACUUM rewrites the database while other writers wait. So it is not run while workers
    hold jobs, because their leases could run out. Raises DatabaseUnavailable if it fails."""
    how: Literal["vacuum", "reused"] = "vacuum"
    if engine.dialect.name == "postgresql":
        names = ", ".join(table.name for table in PRUNED_TABLES)
        with one_write(engine) as connection:
            connection.execute(text(f"VACUUM (ANALYZE) {names}"))
    elif _held(engine):
        how = "reused"
    else:
        _vacuum(engine)
    return Space(how, size(engine))


def size(engine: Engine) -> int:
    """Return the size of the whole database in bytes. On SQLite, this is its main file."""
    asked = (
        "SELECT pg_database_size(current_database())"
        if engine.dialect.name == "postgresql"
        else "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    )
    with reading(engine) as connection:
        return int(connection.execute(text(asked)).scalar_one())


def _held(engine: Engine) -> bool:
    """Return whether a worker holds a job under a lease that has not run out."""
    holding = (jobs.c.state == "running", not_(expired))
    with reading(engine) as connection:
        query = select(func.count()).select_from(jobs).where(*holding)
        return bool(connection.execute(query).scalar_one())


def _vacuum(engine: Engine) -> None:
    with one_read(engine) as connection:  # in no transaction, in which VACUUM could not run
        try:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
        except OperationalError as error:
            raise DatabaseUnavailable(
                engine.url.render_as_string(), f"{error.orig}; what was deleted stays deleted"
            ) from error
