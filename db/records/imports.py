"""Storing an imported log as jobs, which measure its configurations or tune its shapes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from db.contract.job import Job
from db.contract.order import JobOrder
from db.queue.submit import submit
from db.records import listed
from db.records.listed import ListedOrder
from db.sql.errors import QuotaExceeded


@dataclass(frozen=True)
class Stored:
    """The jobs of an import, each with whether it is new. ``left`` is the number of shapes that
    were not ordered, and ``why`` the reason."""

    jobs: list[tuple[Job, bool]]
    left: int = 0
    why: str | None = None


def store(engine: Engine, configs: Iterable[ListedOrder], shapes: Sequence[JobOrder]) -> Stored:
    """Order jobs that measure the configurations of a log, then jobs that tune its shapes.

    The configurations are ordered in one transaction, all or none. Each shape is ordered in a
    transaction of its own, so that other writers do not wait for a long log. An order makes no new
    job if an equal one is unended, or if a best answers it.

    If the quota is used up in the middle, the remaining shapes are counted in ``left``. Raises
    QuotaExceeded if no job could be ordered at all."""
    jobs = listed.submit(engine, listed.grouped(configs))
    for place, order in enumerate(shapes):
        try:
            jobs.append(submit(engine, order))
        except QuotaExceeded as full:
            if not jobs:
                raise
            return Stored(jobs, len(shapes) - place, str(full))
    return Stored(jobs)
