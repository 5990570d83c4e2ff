"""Quotas: an engine can carry an orderer, whose unfinished jobs are counted and limited."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select

from db.sql.errors import QuotaExceeded
from db.sql.tables import UNENDED, jobs

_ADVISORY_SPACE = 0x71756F74  # "quot"
_OPTION = "orderer"


@dataclass(frozen=True)
class Orderer:
    """Somebody who orders jobs, and the quota that limits them."""

    name: str  # "key 7" or "address 127.0.0.1"
    unfinished: int | None  # the most jobs that may be unfinished at once; None: no limit


def orders_of(engine: Engine, orderer: Orderer) -> Engine:
    """Return an engine of the same database. Jobs that are created through it are charged to this
    orderer."""
    return engine.execution_options(**{_OPTION: orderer})


def orderer_of(connection: Connection) -> Orderer | None:
    """Return the orderer to whom jobs created through this connection are charged; None if there is
    none."""
    return connection.get_execution_options().get(_OPTION)


def charge(connection: Connection, count: int) -> str | None:
    """Check the quota for ``count`` new jobs, and return the name of the orderer that they belong
    to. Return None, and check nothing, if the connection has no orderer.

    Call it once in the transaction that creates the jobs. Raises QuotaExceeded."""
    orderer = orderer_of(connection)
    if orderer is None:
        return None
    if orderer.unfinished is not None:
        if connection.dialect.name == "postgresql":
            # orders of one orderer take turns: two that count at once would both be accepted
            lock = func.pg_advisory_xact_lock(_ADVISORY_SPACE, func.hashtext(orderer.name))
            connection.execute(select(lock))
        there = select(func.count()).where(jobs.c.ordered_by == orderer.name, UNENDED)
        if connection.execute(there).scalar_one() + count > orderer.unfinished:
            raise QuotaExceeded(orderer.unfinished, count)
    return orderer.name
