"""Storing an imported log as jobs: configurations to measure, and shapes to tune."""

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
    """The jobs, each with whether it is new, and how many shapes were not ordered and why."""

    jobs: list[tuple[Job, bool]]
    left: int = 0
    why: str | None = None


def store(engine: Engine, configs: Iterable[ListedOrder], shapes: Sequence[JobOrder]) -> Stored:
    """Store all configurations or none, then the shapes, each in a transaction of its own, so that
    nobody waits for a long log. An order that has an equal one, or a best already, makes no new
    job. Raises QuotaExceeded if the user of `engine` may order nothing at all."""
    jobs = listed.submit(engine, listed.grouped(configs))
    for place, order in enumerate(shapes):
        try:
            jobs.append(submit(engine, order))
        except QuotaExceeded as full:
            if not jobs:
                raise
            return Stored(jobs, len(shapes) - place, str(full))
    return Stored(jobs)
