"""Who can take a job: why one waits in vain, and which job's best a caller may wait for."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Engine, func, select

from db.contract.job import Job
from db.fleet.devices import Device, list_devices
from db.fleet.workers import ALIVE_SECONDS
from db.queue.jobs import job_columns
from db.sql.columns import now
from db.sql.models import JOINABLE, devices, jobs, workers, workloads
from db.sql.transaction import reading

_START = "start one with `python -m tuner.worker`"


def beside(engine: Engine, listed: Sequence[Job]) -> list[tuple[Device | None, str | None]]:
    """What is told of each job beside its row: the device where it runs or ran, and its
    `waiting_reason`."""
    known = {device.id: device for device in list_devices(engine)}
    with reading(engine) as connection:
        waiting = waiting_reasons(connection, listed)
    return [(known.get(job.device_id or 0), waiting.get(job.id)) for job in listed]


def waiting_reason(connection: Connection, job: Job) -> str | None:
    """Why no living worker can take this job, and what to do; None if one can, busy or not, or if
    the job is not queued."""
    return waiting_reasons(connection, [job]).get(job.id)


def waiting_reasons(connection: Connection, listed: Iterable[Job]) -> dict[str, str]:
    """The same for many jobs, by id; those without a reason are left out."""
    queued = [job for job in listed if job.state == "queued"]
    if not queued:
        return {}
    kinds = _living(connection)
    reasons = ((job.id, _reason(job.target, kinds)) for job in queued)
    return {job_id: reason for job_id, reason in reasons if reason is not None}


def answering(
    engine: Engine, workload_key: str, kind: str | None = None, device: int | str | None = None
) -> Job | None:
    """The queued or running job that gives this workload a best on that kind of device, or on that
    device (its id or name); one that runs before one that waits. An order for any device counts for
    a kind once it runs on one, an order of a kind for a device likewise."""
    query = (
        job_columns()
        .add_columns(devices.c.kind.label("device_kind"), devices.c.name.label("device_name"))
        .join(devices, devices.c.id == jobs.c.device_id, isouter=True)
        .where(workloads.c.key == workload_key, JOINABLE)
        .order_by(jobs.c.state.desc(), jobs.c.seq)  # running comes after queued
    )
    with reading(engine) as connection:
        for row in connection.execute(query).mappings():
            on_kind = kind is None or kind in (row["target"], row["device_kind"])
            named = (row["device_id"], str(row["device_id"]), row["device_name"])
            if on_kind and (device is None or device in named):
                return Job.from_row(row)
    return None


def _living(connection: Connection) -> dict[str, int]:
    """How many workers live, by the kind of their device."""
    query = (
        select(devices.c.kind, func.count().label("living"))
        .join(workers, workers.c.device_id == devices.c.id)
        .where(workers.c.seen_at >= now() - ALIVE_SECONDS)
        .group_by(devices.c.kind)
        .order_by(devices.c.kind)
    )
    return {row.kind: row.living for row in connection.execute(query)}


def _reason(target: str, living: dict[str, int]) -> str | None:
    if target in living or (target == "auto" and living):
        return None
    where = "" if target == "auto" else f" on a host with a {target} device"
    if not living:
        return (
            f"no worker is alive (none was seen within the last {ALIVE_SECONDS:.0f} s); "
            f"{_START}{where}"
        )
    return (
        f"no living worker has a {target} device ({_counted(living)}); {_START}{where}, "
        f"or order target {' or '.join(living)}"
    )


def _counted(living: dict[str, int]) -> str:
    total = sum(living.values())
    kinds = [f"{count} {kind}" for kind, count in living.items()]
    return f"{total} {'lives' if total == 1 else 'live'}: {', '.join(kinds)}"
