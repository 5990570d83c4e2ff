"""Waiting for SQLite's write lock, of which there is one for a database.

SQLite's own busy handler asks after 1, 3, 8, 18, 33, 53, 78 … ms and in the end every 100 ms: who
has waited long asks seldom, and who comes late is served first. Transactions here take about a
millisecond, so everybody asks again after that long."""

import random
import sqlite3
import time
from typing import cast

from sqlalchemy import Connection

SHORT = (0.3e-3, 1.5e-3)
"""Seconds between two tries, drawn from here so that no two keep in step."""
LONG = (5e-3, 15e-3)
"""Likewise where somebody holds the lock for long, as a migration does."""
PATIENT_SECONDS = 0.5


def begin_immediate(connection: Connection) -> None:
    """BEGIN IMMEDIATE, tried for as long as the connection's busy_timeout says; then
    OperationalError."""
    raw = cast(sqlite3.Connection, connection.connection.driver_connection)
    (milliseconds,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        if not _begun(raw, milliseconds * 1e-3):
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # to have its error from SQLAlchemy
    finally:
        raw.execute(f"PRAGMA busy_timeout = {milliseconds}")


def _begun(raw: sqlite3.Connection, seconds: float) -> bool:
    start = time.monotonic()
    while True:
        try:
            raw.execute("BEGIN IMMEDIATE")
            return True
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - start
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= seconds:
                return False
        time.sleep(random.uniform(*(SHORT if waited < PATIENT_SECONDS else LONG)))  # noqa: S311
