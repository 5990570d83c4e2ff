"""Trials: configurations that were built, checked and measured, or the reasons why not."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Select, String, cast, func, insert, select, update
from sqlalchemy.engine import RowMapping
from sqlalchemy.exc import IntegrityError

from db.queue.jobs import require_job_id
from db.queue.lease import lock_leased_job
from db.results.totals import add_up
from db.sql.choices import MACHINE_ERROR, TIMEOUTS
from db.sql.columns import canonical, now, storable, utc
from db.sql.errors import DuplicateTrial, NotFound
from db.sql.pages import Page, page, read_cursor
from db.sql.tables import MEASURED_ONCE, jobs, trials, workloads
from db.sql.transaction import is_duplicate, reading, writing


@dataclass(frozen=True)
class NewTrial:
    """A trial to store."""

    device_id: int
    config: dict[str, Any]
    template: str
    template_version: int
    tvm_version: str
    status: str
    time_us: float | None  # warm median
    timing: dict[str, Any] | None  # all that was timed, warm and cold
    max_error: float | None
    error: str | None
    seconds: dict[str, float]  # spent in schedule, build, check, run


@dataclass(frozen=True)
class Trial(NewTrial):
    """A stored trial."""

    id: int
    job_id: str
    number: int  # from 1 within its job
    created_at: datetime

    @property
    def config_key(self) -> str:
        return config_key(self.config)

    @classmethod
    def from_row(cls, row: RowMapping) -> "Trial":
        fields = {name: row[name] for name in cls.__dataclass_fields__}
        return cls(**fields | {"created_at": utc(row["created_at"])})


def config_key(config: dict[str, Any]) -> str:
    """Return 32 hexadecimal digits that equal configurations share, in any order of knobs."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:32]


def add(engine: Engine, job_id: str, attempt: int, new: Sequence[NewTrial]) -> list[Trial]:
    """Store trials of a job in one transaction, and return them as stored. Their numbers continue
    those of the job's earlier trials.

    Raises LeaseLost, and DuplicateTrial if a configuration was measured already for the same
    workload, device, template, template version and TVM version. A trial of another job that failed
    by MACHINE_ERROR or one of TIMEOUTS does not count. In both cases nothing is stored."""
    with writing(engine) as connection:
        job = lock_leased_job(connection, job_id, attempt)
        if not new:
            return []
        last, clock = connection.execute(
            select(func.coalesce(func.max(trials.c.number), 0), now()).where(
                trials.c.job_seq == job["seq"]
            )
        ).one()
        rows = [
            asdict(trial)
            | {
                "job_seq": job["seq"],
                "workload_id": job["workload_id"],
                "number": number,
                "config_key": config_key(trial.config),
                "created_at": clock,
            }
            for number, trial in enumerate(new, last + 1)
        ]
        _make_way(connection, job["seq"], rows)
        try:
            connection.execute(insert(trials), rows)
        except IntegrityError as error:
            if not is_duplicate(error):
                raise
            raise DuplicateTrial(
                "a configuration was already measured for this workload, device, template and "
                "TVM version; nothing was written; read the known trials before measuring"
            ) from error
        add_up(connection, job["seq"], rows)
        query = trial_columns().where(trials.c.job_seq == job["seq"], trials.c.number > last)
        stored = connection.execute(query.order_by(trials.c.number)).mappings()
        return [Trial.from_row(row) for row in stored]


def _make_way(connection: Connection, job_seq: int, rows: Sequence[dict[str, Any]]) -> None:
    """Make way for these rows: give trials of the same configurations in other jobs, if they failed
    for a reason that may pass, keys that no configuration has."""
    for row in rows:
        connection.execute(
            update(trials)
            .where(
                *(trials.c[name] == row[name] for name in MEASURED_ONCE),
                trials.c.job_seq != job_seq,
                trials.c.status.in_((MACHINE_ERROR, *TIMEOUTS)),
            )
            .values(config_key=cast(trials.c.id, String))
        )


def measured_trials(
    engine: Engine, workload_key: str, device_id: int, tvm_version: str
) -> list[Trial]:
    """Return all trials of this workload on this device with this version of TVM, whichever job
    measured them, oldest first."""
    query = (
        trial_columns()
        .join(workloads, workloads.c.id == trials.c.workload_id)
        .where(
            workloads.c.key == workload_key,
            trials.c.device_id == device_id,
            trials.c.tvm_version == tvm_version,
        )
        .order_by(trials.c.id)
    )
    with reading(engine) as connection:
        return [Trial.from_row(row) for row in connection.execute(query).mappings()]


def list_trials(
    engine: Engine,
    job_id: str,
    status: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page[Trial]:
    """Return a page of a job's trials in the order of their numbers, only those with this status if
    one is given. Raises NotFound, BadCursor."""
    after = 0 if cursor is None else read_cursor("trials", cursor)
    with reading(engine) as connection:
        job = select(jobs.c.seq).where(jobs.c.id == require_job_id(job_id))
        seq = connection.execute(job).scalar()
        if seq is None:
            raise NotFound("job", job_id)
        query = (
            trial_columns()
            .where(trials.c.job_seq == seq, trials.c.number > after)
            .order_by(trials.c.number)
            .limit(limit + 1)
        )
        if status is not None:
            if not storable(status):
                return Page([], None)
            query = query.where(trials.c.status == status)
        found = [Trial.from_row(row) for row in connection.execute(query).mappings()]
    return page("trials", limit, found, [trial.number for trial in found])


def trial_columns() -> Select[Any]:
    """Return a SELECT of trials with the columns that ``Trial.from_row`` reads."""
    return select(trials, jobs.c.id.label("job_id")).join(jobs, jobs.c.seq == trials.c.job_seq)
