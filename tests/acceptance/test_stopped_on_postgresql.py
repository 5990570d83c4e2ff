"""A signal that comes while PostgreSQL executes a worker's statement."""

import signal
import subprocess
import sys
import time

from processes import ROOT, until
from sqlalchemy import Connection, create_engine, text

import templates
from db import queue
from db.sql.engine import migrate, open_engine
from tests.own_postgres import own_server

CLAIM = """
import sys
from db import queue
from db.sql.engine import open_engine
from tuner.process.stopping import Stopped, check_stopped, stop_on_signals
engine = open_engine(sys.argv[1])
stop_on_signals()
try:
    queue.claim(engine, "one", ["cpu"])
    check_stopped()
except Stopped:
    print(queue.get(engine, sys.argv[2]).state)
"""


def others(connection: Connection) -> list[tuple[str, str | None]]:
    """Return the state and the kind of wait of each other connection to this database."""
    query = text(
        "SELECT state, wait_event_type FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return [(row.state, row.wait_event_type) for row in connection.execute(query)]


def test_worker_stopped_during_a_claim_waits_for_its_outcome() -> None:
    """A worker that is stopped during a claim waits until it knows whether the claim succeeded.

    Otherwise PostgreSQL could carry out the claim later, when nobody is left to give the job back.
    """
    with own_server() as server:
        engine = open_engine(server.url)
        migrate(engine)
        workload = templates.operator("conv1d").workload.model_validate({"M": 64, "N": 8})
        job, _ = queue.submit(
            engine,
            queue.JobOrder(
                operator="conv1d",
                workload_key=workload.key,
                workload=workload.model_dump(),
                target="cpu",
                trials=1,
                search="random",
                on_existing="reuse",
            ),
        )
        engine.dispose()
        holding, looking = (create_engine(server.url) for _ in range(2))
        with looking.connect() as watch, holding.connect() as connection:
            watch.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(text("LOCK TABLE jobs IN SHARE MODE"))
            claiming = subprocess.Popen(
                [sys.executable, "-c", CLAIM, server.url, job.id],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            until(lambda: ("active", "Lock") in others(watch))
            claiming.send_signal(signal.SIGTERM)
            time.sleep(1.0)
            went_on = claiming.poll() is None
            connection.rollback()
            (seen,) = claiming.communicate(timeout=60)[0].splitlines()
            assert went_on
            until(lambda: "active" not in [state for state, _ in others(watch)])
        assert queue.get(engine, job.id).state == seen
        for each in (engine, holding, looking):
            each.dispose()
