"""A worker for which a locked SQLite file is unavailable at once, instead of after 30 s.

It is run as ``python -m tests.acceptance.impatient_worker URL``.
"""

import sqlite3
import sys
from typing import Any

from sqlalchemy import Engine, event

from db.sql.engine import open_engine
from tuner.device.detect import detect
from tuner.process import logs
from tuner.process.stopping import Stopped, stop_on_signals
from tuner.settings import Settings
from tuner.worker.worker import Worker


def impatient(url: str) -> Engine:
    """Return an engine that does not wait for SQLite's lock."""
    engine = open_engine(url)
    engine.dispose()

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        connection.execute("PRAGMA busy_timeout = 0")

    return engine


if __name__ == "__main__":
    logs.configure("json")
    stop_on_signals()
    try:
        Worker(impatient(sys.argv[1]), detect("cpu"), Settings()).run()
    except Stopped:
        sys.exit(0)
