"""Waiting for the single write lock of a SQLite database.

SQLite's own busy handler tries after 1, 3, 8, 18, 33, 53, 78 … ms and in the end every 100 ms. So a
process that has waited long tries seldom, and latecomers get the lock first. Transactions here take
about a millisecond, so every waiting process tries again after about that long."""

import random
import sqlite3
import time
from typing import cast

from sqlalchemy import Connection

SHORT = (0.3e-3, 1.5e-3)
"""Bounds of the random number of seconds between two tries, so that no two processes keep in
step."""
LONG = (5e-3, 15e-3)
"""The same bounds once the lock was held for PATIENT_SECONDS, as by a migration."""
PATIENT_SECONDS = 0.5


def begin_immediate(connection: Connection) -> None:
    """Run BEGIN IMMEDIATE, and retry it for up to the connection's busy_timeout.

    Raises SQLAlchemy's OperationalError if the lock is still held then, or for another reason."""
    raw = cast(sqlite3.Connection, connection.connection.driver_connection)
    (milliseconds,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        if not _begun(raw, milliseconds * 1e-3):
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # for its error, wrapped by SQLAlchemy
    finally:
        raw.execute(f"PRAGMA busy_timeout = {milliseconds}")


def _begun(raw: sqlite3.Connection, seconds: float) -> bool:
    """Try for up to so many seconds to begin a transaction, and return whether that succeeded."""
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
