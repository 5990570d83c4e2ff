"""Whose orders an engine takes, and how many of their jobs may be unfinished at once."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select

from db.sql.errors import QuotaExceeded
from db.sql.models import UNENDED, jobs

_ADVISORY_SPACE = 0x71756F74  # "quot"
_OPTION = "orderer"


@dataclass(frozen=True)
class Orderer:
    name: str  # "key 7" or "address 127.0.0.1"
    unfinished: int | None  # how many of their jobs may be; None: any number


def orders_of(engine: Engine, orderer: Orderer) -> Engine:
    """The same database; jobs that are created through it are this orderer's and count for them."""
    return engine.execution_options(**{_OPTION: orderer})


def orderer_of(connection: Connection) -> Orderer | None:
    """None if the engine is nobody's."""
    return connection.get_execution_options().get(_OPTION)


def charged(connection: Connection, count: int) -> str | None:
    """Who so many jobs that are now created belong to; None if the engine is nobody's.

    Raises QuotaExceeded. To be called once in the transaction that creates the jobs."""
    orderer = orderer_of(connection)
    if orderer is None:
        return None
    if orderer.unfinished is not None:
        if connection.dialect.name == "postgresql":
            # one order of each at a time: two that count at once would both find room
            lock = func.pg_advisory_xact_lock(_ADVISORY_SPACE, func.hashtext(orderer.name))
            connection.execute(select(lock))
        there = select(func.count()).where(jobs.c.ordered_by == orderer.name, UNENDED)
        if connection.execute(there).scalar_one() + count > orderer.unfinished:
            raise QuotaExceeded(orderer.unfinished, count)
    return orderer.name
