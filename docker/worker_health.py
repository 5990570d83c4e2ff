"""Exits with 0 while this container's worker is known to live, by its beats in the database."""

import socket
import sys

from db.fleet.workers import list_workers
from db.sql.engine import open_engine
from tuner.settings import Settings

HOST = socket.gethostname()

engine = open_engine(Settings().database_url)
workers = list_workers(engine)
engine.dispose()
sys.exit(0 if any(each.alive and each.host == HOST for each in workers) else f"no beat of {HOST}")
