"""Queries for a job's event stream: its current state, and the trials after a given one."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row, Select, Text, and_, case, func, or_, select, type_coerce

from db.contract.job import Job
from db.fleet.devices import Device
from db.fleet.workers import alive
from db.queue.jobs import job_columns, require_job_id
from db.queue.lease import expired
from db.queue.waiting import waiting_reason
from db.results.trials import Trial, trial_columns
from db.sql.errors import NotFound
from db.sql.tables import devices, jobs, trials, workers
from db.sql.transaction import reading

_last_number = (
    select(func.coalesce(func.max(trials.c.number), 0))
    .where(trials.c.job_seq == jobs.c.seq)
    .correlate(jobs)
    .scalar_subquery()
)
_living = select(func.count()).select_from(workers).where(alive).scalar_subquery()
_ok = trials.c.status == "ok"


@dataclass(frozen=True)
class Snapshot:
    """A job, its device and its last trial's number, all read in one transaction."""

    seq: int
    job: Job
    device: Device | None
    last: int  # the number of its last trial, 0 if there is none
    waiting: str | None  # its `waiting_reason`

    @property
    def stage(self) -> int:
        """A number that each claim, release, request to cancel and end of the job raises by one.
        Nothing lowers it, so a newer snapshot never has a smaller one."""
        job = self.job
        return 1 + job.attempt + job.released + job.cancel_requested + job.ended


def snapshot(engine: Engine, job_id: str) -> Snapshot:
    """Return how the job is now. Raises NotFound."""
    with reading(engine) as connection:
        query = job_columns().add_columns(_last_number.label("last"))
        row = (
            connection.execute(query.where(jobs.c.id == require_job_id(job_id))).mappings().first()
        )
        if row is None:
            raise NotFound("job", job_id)
        of_device = select(devices).where(devices.c.id == row["device_id"])
        device = connection.execute(of_device).mappings().first()
        job = Job.from_row(row)
        waiting = waiting_reason(connection, job)
    return Snapshot(
        seq=row["seq"],
        job=job,
        device=None if device is None else Device.from_row(device),
        last=row["last"],
        waiting=waiting,
    )


def marks(engine: Engine, seqs: Collection[int]) -> dict[int, Row[Any]]:
    """Return for each of these jobs, by its number, the columns that change whenever its snapshot
    does, so that comparing them shows whether to read it anew. Missing jobs are left out."""
    query = select(
        jobs.c.seq,
        jobs.c.state,
        jobs.c.attempt,
        jobs.c.released,
        jobs.c.cancel_requested,
        expired.label("expired"),
        _living.label("living"),
        jobs.c.device_id,
        jobs.c.trials_measured,
        jobs.c.trials_ok,
        jobs.c.eta_seconds,
        type_coerce(jobs.c.best, Text),
        _last_number,
    ).where(jobs.c.seq.in_(seqs))
    with reading(engine) as connection:
        return {row.seq: row for row in connection.execute(query)}


def trials_after(engine: Engine, seq: int, number: int, limit: int) -> list[Trial]:
    """Return the job's trials after this number, at most ``limit``, in the order of their numbers.

    That is also the order in which they are committed, because numbers are given out under a lock
    on the job's row. So a reader that goes on after the last number it saw misses no trial."""
    query = (
        trial_columns()
        .where(trials.c.job_seq == seq, trials.c.number > number)
        .order_by(trials.c.number)
        .limit(limit)
    )
    with reading(engine) as connection:
        return [Trial.from_row(row) for row in connection.execute(query).mappings()]


def fastest(engine: Engine, seq: int, number: int) -> float | None:
    """Return the shortest time, in µs, that was known for the job's workload on its device when the
    job had stored ``number`` trials. None if the job has no trials, or none of those is ok.

    The job's own trials count, and trials that were stored before its first one. As in the search,
    trials with another version of TVM or an earlier version of their template do not count."""
    first_query = select(trials).where(trials.c.job_seq == seq).order_by(trials.c.number).limit(1)
    own_query = select(func.min(trials.c.time_us)).where(
        trials.c.job_seq == seq, trials.c.number <= number, _ok
    )
    with reading(engine) as connection:
        first = connection.execute(first_query).first()
        if first is None:
            return None
        own = connection.execute(own_query).scalar()
        earlier = connection.execute(_by_version(first)).all()
    newest = {template: time for template, _, time in earlier}
    return min((time for time in (own, *newest.values()) if time is not None), default=None)


def _by_version(first: Row[Any]) -> Select[Any]:
    """Return a SELECT of the shortest time before this trial, which is its job's first, for each
    version of each template that the job or an earlier one tried. A template's newest version comes
    last.

    Versions that only later jobs tried are left out: the answer must not change when a template
    does."""
    before = trials.c.id < first.id
    return (
        select(
            trials.c.template,
            trials.c.template_version,
            func.min(case((and_(before, _ok), trials.c.time_us))),
        )
        .where(
            or_(before, trials.c.job_seq == first.job_seq),
            trials.c.workload_id == first.workload_id,
            trials.c.device_id == first.device_id,
            trials.c.tvm_version == first.tvm_version,
        )
        .group_by(trials.c.template, trials.c.template_version)
        .order_by(trials.c.template_version)
    )
