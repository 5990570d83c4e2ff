"""Which workers can take a job, why a job waits in vain, and which job a caller may wait for if a
workload has no best yet."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, Engine, func, select

from db.contract.job import Job
from db.fleet.devices import Device, device_name, list_devices
from db.fleet.workers import ALIVE_SECONDS, alive
from db.queue.jobs import job_columns
from db.queue.lease import expired
from db.sql.tables import JOINABLE, devices, jobs, workers, workloads
from db.sql.transaction import reading

_START = "start one with `python -m tuner.worker`"


def devices_and_waiting_reasons(
    engine: Engine, listed: Sequence[Job]
) -> list[tuple[Device | None, str | None]]:
    """Return for each job, in the order of ``listed``, the device on which it runs or ran, and its
    `waiting_reason`. Both are shown with a job, but are not in its row."""
    known = {device.id: device for device in list_devices(engine)}
    with reading(engine) as connection:
        waiting = waiting_reasons(connection, listed)
    return [(known.get(job.device_id or 0), waiting.get(job.id)) for job in listed]


def waiting_reason(connection: Connection, job: Job) -> str | None:
    """Return why no living worker can take this job, and what to do about it, or that its worker
    gives no sign of life. Return None if a living worker, busy or not, can take the job or holds
    it."""
    return waiting_reasons(connection, [job]).get(job.id)


def waiting_reasons(connection: Connection, listed: Iterable[Job]) -> dict[str, str]:
    """Return the `waiting_reason` of each job, by its id; jobs that have none are left out."""
    listed = list(listed)
    silent = _silent(connection, [job.id for job in listed if job.state == "running"])
    unheld = [job for job in listed if job.state == "queued" or job.id in silent]
    if not unheld:
        return {}
    living = _living(connection)
    reasons = {job.id: _reason(job, living) for job in unheld}
    for job in unheld:
        if job.id in silent:
            then = reasons[job.id] or "the next free worker goes on with it"
            reasons[job.id] = f"its worker {job.worker} gives no sign of life; {then}"
    return {job_id: reason for job_id, reason in reasons.items() if reason is not None}


def pending_job_for(
    engine: Engine, workload_key: str, kind: str | None = None, device: int | str | None = None
) -> Job | None:
    """Return an unended job whose best will answer this workload, or None.

    ``kind`` and ``device`` (its id or name) restrict the answer as in `db.results.best.lookup`. A
    running job is preferred to a queued one. A job whose target is ``auto`` counts for a kind once
    it runs on a device of that kind. A job counts for a device if it was ordered for it, or once it
    runs there."""
    query = (
        job_columns()
        .add_columns(devices.c.kind.label("device_kind"), devices.c.name.label("device_name"))
        .join(devices, devices.c.id == jobs.c.device_id, isouter=True)
        .where(workloads.c.key == workload_key, JOINABLE)
        .order_by(jobs.c.state.desc(), jobs.c.seq)  # running comes after queued
    )
    with reading(engine) as connection:
        found = connection.execute(query).mappings().all()
    if not found:
        return None
    kinds = {each.name: each.kind for each in list_devices(engine)}
    name = None if device is None else device_name(engine, str(device))
    for row in found:
        ordered, ran = row["for_device"], row["device_id"]
        on_kind = kind in (None, row["target"], row["device_kind"], kinds.get(ordered))
        there = ran is not None and str(device) in (str(ran), row["device_name"])
        if on_kind and (name in (None, ordered) or there):
            return Job.from_row(row)
    return None


def _silent(connection: Connection, running: Sequence[str]) -> set[str]:
    """Return those of these running jobs whose lease ran out."""
    if not running:
        return set()
    return set(connection.scalars(select(jobs.c.id).where(jobs.c.id.in_(running), expired)))


def _living(connection: Connection) -> list[tuple[Device, int]]:
    """Return the devices on which workers live, and how many on each."""
    living = (
        select(workers.c.device_id, func.count().label("living"))
        .where(alive)
        .group_by(workers.c.device_id)
        .subquery()
    )
    query = (
        select(devices, living.c.living)
        .join(living, living.c.device_id == devices.c.id)
        .order_by(devices.c.kind, devices.c.id)
    )
    rows = connection.execute(query).mappings()
    return [(Device.from_row(row), row["living"]) for row in rows]


def _reason(job: Job, living: list[tuple[Device, int]]) -> str | None:
    """Return why none of these workers can take the job, or None if one can."""
    wanted = job.for_device
    of_kind = [device for device, _ in living if job.target in ("auto", device.kind)]
    if any(wanted in (None, device.name) for device in of_kind):
        return None
    asked = "device" if job.target == "auto" else f"{job.target} device"
    if wanted is not None:
        asked += f" called “{wanted}”"
    where = "" if asked == "device" else f" on a host with a {asked}"
    if not living:
        return (
            f"no worker is alive (none was seen within the last {ALIVE_SECONDS:.0f} s); "
            f"{_START}{where}"
        )
    kinds = Counter[str]()
    for device, count in living:
        kinds[device.kind] += count
    named = {device.kind for device, _ in living if wanted == device.name}
    if wanted is None or named:
        instead = f"order target {' or '.join(named or kinds)}"
    elif of_kind:
        instead = f"order for_device {' or '.join(sorted({each.name for each in of_kind}))}"
    else:
        instead = f"leave for_device out and order target {' or '.join(kinds)}"
    return f"no living worker has a {asked} ({_counted(kinds)}); {_START}{where}, or {instead}"


def _counted(living: Mapping[str, int]) -> str:
    total = sum(living.values())
    kinds = [f"{count} {kind}" for kind, count in living.items()]
    return f"{total} {'lives' if total == 1 else 'live'}: {', '.join(kinds)}"
