"""Workers: where they run, on which job they work, and when they last reported."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, and_, delete, select

from db.fleet.devices import DEVICE_COLUMNS, Device
from db.sql.columns import now, upsert, utc
from db.sql.tables import devices, workers
from db.sql.transaction import reading, writing

FORGET_SECONDS = 7 * 86400.0
ALIVE_SECONDS = 60.0
"""A worker that was seen within so many seconds counts as living."""

alive = and_(workers.c.seen_at >= now() - ALIVE_SECONDS, workers.c.seen_at <= now() + ALIVE_SECONDS)
"""Whether a worker counts as living. It does not if ``seen_at`` is far in the future: that time is
from before the clock was set back."""


@dataclass(frozen=True)
class Worker:
    """A worker as it last reported."""

    name: str
    host: str
    pid: int
    device: Device | None
    version: str
    job_id: str | None  # the job that it is working on
    alive: bool
    started_at: datetime
    seen_at: datetime


def beat(
    engine: Engine,
    worker: str,
    *,
    host: str,
    pid: int,
    device_id: int | None,
    version: str,
    job_id: str | None,
) -> None:
    """Store that this worker lives, where it runs, and which job it is working on. Delete workers
    that were not seen for a week (FORGET_SECONDS)."""
    values = {
        "host": host,
        "pid": pid,
        "device_id": device_id,
        "version": version,
        "job_id": job_id,
        "seen_at": now(),
    }
    with writing(engine) as connection:
        connection.execute(
            upsert(connection, workers)
            .values(name=worker, started_at=now(), **values)
            .on_conflict_do_update(index_elements=[workers.c.name], set_=values)
        )
        connection.execute(delete(workers).where(workers.c.seen_at < now() - FORGET_SECONDS))


def leave(engine: Engine, worker: str) -> None:
    """Delete a worker that is ending from the list."""
    with writing(engine) as connection:
        connection.execute(delete(workers).where(workers.c.name == worker))


def list_workers(engine: Engine) -> list[Worker]:
    """Return all workers, sorted by name."""
    query = (
        select(workers, alive.label("alive"), *DEVICE_COLUMNS)
        .join(devices, devices.c.id == workers.c.device_id, isouter=True)
        .order_by(workers.c.name)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    return [
        Worker(
            **{name: row[name] for name in ("name", "host", "pid", "version", "job_id", "alive")},
            device=None if row["device_id"] is None else Device.from_row(row, "device_"),
            started_at=utc(row["started_at"]),
            seen_at=utc(row["seen_at"]),
        )
        for row in rows
    ]
