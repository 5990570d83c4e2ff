"""Ids of jobs for shell completion. They are read without SQLAlchemy, which takes longer to import
than a user waits after pressing Tab."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

MOST = 30
CONNECT_SECONDS = 2
_QUERY = """
SELECT jobs.id, jobs.state, workloads.operator FROM jobs
JOIN workloads ON workloads.id = jobs.workload_id
WHERE jobs.id LIKE {0} AND jobs.state IN ({1}) ORDER BY jobs.seq DESC LIMIT {2}
"""


def find_by_prefix(url: str, prefix: str, states: Sequence[str]) -> list[tuple[str, str]]:
    """Return at most MOST of the newest jobs in these states whose id begins with ``prefix``: their
    id, and their state and operator in one text.

    Return none if the database can't be opened, or is not reached within CONNECT_SECONDS. The
    database is only read."""
    if not re.fullmatch("[0-9a-f]{0,32}", prefix):
        return []  # SQLite's LIKE would ignore case, and % and _ stand for other characters
    given = (f"{prefix}%", *states)
    try:
        if url.startswith("sqlite"):
            rows = _of_sqlite(Path(url.partition(":///")[2]), _query("?", len(states)), given)
        else:
            rows = _of_postgresql(url, _query("%s", len(states)), given)
    except Exception:  # any error at all: shell completion must not print one
        return []
    return [(job, f"{state} {operator}") for job, state, operator in rows]


def _query(mark: str, states: int) -> str:
    return _QUERY.format(mark, ", ".join([mark] * states), MOST)


def _of_sqlite(path: Path, query: str, given: Sequence[str]) -> list[tuple[str, str, str]]:
    address = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=CONNECT_SECONDS)) as connection:
        return connection.execute(query, given).fetchall()


def _of_postgresql(url: str, query: str, given: Sequence[str]) -> list[tuple[str, str, str]]:
    import psycopg  # noqa: PLC0415  # the driver is an extra

    plain = f"postgresql://{url.partition('://')[2]}"
    with psycopg.connect(plain, connect_timeout=CONNECT_SECONDS) as connection:
        return connection.execute(query, given).fetchall()
