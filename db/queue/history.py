"""What was tried before, for a search to begin with."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select

from db.queue.lease import held, set_job
from db.sql.models import jobs, trials, workloads
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class PastTrial:
    """As much of a trial as a search learns from; ``time_us`` is None if it failed."""

    job_seq: int
    template: str
    template_version: int
    config: dict[str, Any]
    time_us: float | None


def tried_workloads(engine: Engine, operator: str, device_id: int) -> list[str]:
    """The keys of an operator's workloads of which the device has trials."""
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
    """The workload's last ``limit`` trials on the device, the newest first."""
    columns = [trials.c[name] for name in PastTrial.__dataclass_fields__]
    workload_id = select(workloads.c.id).where(workloads.c.key == workload_key).scalar_subquery()
    query = (
        select(*columns)
        .where(
            trials.c.workload_id == workload_id,
            trials.c.device_id == device_id,
            trials.c.tvm_version == tvm_version,
        )
        .order_by(trials.c.id.desc())
        .limit(limit)
    )
    with reading(engine) as connection:
        return [PastTrial(**row) for row in connection.execute(query).mappings()]


def note_warm_start(
    engine: Engine, job_id: str, attempt: int, *, from_jobs: int, from_trials: int
) -> None:
    """Keep how much of it a job began with. Raises LeaseLost."""
    with writing(engine) as connection:
        row = held(connection, job_id, attempt)
        set_job(connection, row["seq"], warmed={"jobs": from_jobs, "trials": from_trials})
