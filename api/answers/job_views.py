"""Jobs as they are shown: with their device, and with the reason if nobody can take them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine

from api.schemas.jobs import JobView
from db.fleet.devices import get_device, list_devices
from db.queue import Job
from db.queue.takers import waiting_reason, waiting_reasons
from db.sql.transaction import reading


def job_view(engine: Engine, job: Job) -> JobView:
    device = None if job.device_id is None else get_device(engine, job.device_id)
    return JobView.of(job, device, waiting_for(engine, job))


def job_views(engine: Engine, jobs: Sequence[Job]) -> list[JobView]:
    devices = {device.id: device for device in list_devices(engine)}
    with reading(engine) as connection:
        waiting = waiting_reasons(connection, jobs)
    return [JobView.of(job, devices.get(job.device_id or 0), waiting.get(job.id)) for job in jobs]


def waiting_for(engine: Engine, job: Job) -> str | None:
    """As `db.queue.takers.waiting_reason`; the database is asked about queued jobs only."""
    if job.state != "queued":
        return None
    with reading(engine) as connection:
        return waiting_reason(connection, job)
