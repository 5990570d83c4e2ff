"""Earlier trials on a device, from which a search starts warm."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select

from db.queue.lease import lock_leased_job, set_job
from db.sql.choices import MACHINE_ERROR, SKIPPED
from db.sql.tables import jobs, trials, workloads
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class PastTrial:
    """The part of a trial from which a search learns. ``time_us`` is None if the trial failed."""

    job_seq: int
    template: str
    template_version: int
    config: dict[str, Any]
    time_us: float | None


def tried_workloads(engine: Engine, operator: str, device_id: int) -> list[str]:
    """Return the keys of an operator's workloads for which a job on this device had a trial with
    status ok, in the order in which the workloads were first ordered."""
    query = (
        select(workloads.c.key)
        .where(
            workloads.c.operator == operator,
            workloads.c.id.in_(
                select(jobs.c.workload_id).where(
                    jobs.c.device_id == device_id, jobs.c.trials_ok > 0
                )
            ),
        )
        .order_by(workloads.c.id)
    )
    with reading(engine) as connection:
        return list(connection.execute(query).scalars())


def latest_trials(
    engine: Engine, workload_key: str, device_id: int, tvm_version: str, limit: int
) -> list[PastTrial]:
    """Return at most ``limit`` of the workload's trials on this device with this version of TVM,
    newest first. Trials that failed by MACHINE_ERROR are left out, because a search can learn
    nothing from them. So are imported configurations that were SKIPPED: they may be nonsense."""
    columns = [trials.c[name] for name in PastTrial.__dataclass_fields__]
    workload_id = select(workloads.c.id).where(workloads.c.key == workload_key).scalar_subquery()
    query = (
        select(*columns)
        .where(
            trials.c.workload_id == workload_id,
            trials.c.device_id == device_id,
            trials.c.tvm_version == tvm_version,
            trials.c.status.not_in((MACHINE_ERROR, SKIPPED)),
        )
        .order_by(trials.c.id.desc())
        .limit(limit)
    )
    with reading(engine) as connection:
        return [PastTrial(**row) for row in connection.execute(query).mappings()]


def note_warm_start(
    engine: Engine, job_id: str, attempt: int, *, from_jobs: int, from_trials: int
) -> None:
    """Store the number of trials, and of earlier jobs, from which this job's search starts.

    Raises LeaseLost."""
    with writing(engine) as connection:
        row = lock_leased_job(connection, job_id, attempt)
        set_job(connection, row["seq"], warmed={"jobs": from_jobs, "trials": from_trials})
