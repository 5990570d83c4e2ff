"""Totals over all jobs and trials, for metrics. Sums of trials are updated as trials are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, func, select

from db.fleet.workers import alive
from db.sql.columns import now, upsert
from db.sql.tables import UNENDED, devices, jobs, trial_sums, workers
from db.sql.transaction import reading

PHASES = ("schedule", "build", "check", "run")
PRUNED = "pruned"
"""A value in place of a status. Its row counts the job's trials that db/upkeep/prune.py deleted.
They still count in the row of the status that they had."""


@dataclass(frozen=True)
class Totals:
    """Counts of jobs, trials and living workers, and seconds spent."""

    jobs: dict[str, int]  # by state
    queued_seconds: float  # how long the oldest queued job has waited, 0 if none is
    trials: dict[str, int]  # by status
    seconds: dict[tuple[str, str], float]  # spent in trials, by status and phase
    workers: dict[tuple[str, bool], int]  # living, by kind of device and whether at work


def add_up(connection: Connection, job_seq: int, new: Sequence[Mapping[str, Any]]) -> None:
    """Add new trials to their job's sums. The caller's transaction stores these trials, and has
    locked the job."""
    rows = [
        {
            "job_seq": job_seq,
            "status": status,
            "trials": len(alike),
            **{
                f"{phase}_seconds": sum(trial["seconds"].get(phase, 0.0) for trial in alike)
                for phase in PHASES
            },
        }
        for status in sorted({trial["status"] for trial in new})
        if (alike := [trial for trial in new if trial["status"] == status])
    ]
    statement = upsert(connection, trial_sums).values(rows)
    added = ("trials", *(f"{phase}_seconds" for phase in PHASES))
    statement = statement.on_conflict_do_update(
        index_elements=[trial_sums.c.job_seq, trial_sums.c.status],
        set_={name: trial_sums.c[name] + statement.excluded[name] for name in added},
    )
    connection.execute(statement)


def totals(engine: Engine) -> Totals:
    """Return the totals. This scans the jobs and a few rows for each job, but no trials."""
    by_state = select(jobs.c.state, func.count()).group_by(jobs.c.state)
    waited = select(now() - func.min(jobs.c.created_at)).where(UNENDED, jobs.c.state == "queued")
    by_status = select(
        trial_sums.c.status,
        func.sum(trial_sums.c.trials),
        *(func.sum(trial_sums.c[f"{phase}_seconds"]) for phase in PHASES),
    )
    by_status = by_status.where(trial_sums.c.status != PRUNED).group_by(trial_sums.c.status)
    at_work = workers.c.job_id.is_not(None)
    living = (
        select(devices.c.kind, at_work, func.count())
        .join(devices, devices.c.id == workers.c.device_id)
        .where(alive)
        .group_by(devices.c.kind, at_work)
    )
    with reading(engine) as connection:
        rows = connection.execute(by_status).all()
        return Totals(
            jobs={row[0]: row[1] for row in connection.execute(by_state)},
            queued_seconds=max(0.0, connection.execute(waited).scalar() or 0.0),
            trials={row[0]: int(row[1]) for row in rows},
            seconds={
                (row[0], phase): float(spent)
                for row in rows
                for phase, spent in zip(PHASES, row[2:], strict=True)
            },
            workers={(row[0], bool(row[1])): row[2] for row in connection.execute(living)},
        )
