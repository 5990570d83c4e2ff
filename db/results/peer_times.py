"""Times of a workload's peers on a device, which its first job measures and later jobs reuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, select

from db.contract.order import Baselines
from db.sql.columns import now, upsert, utc
from db.sql.tables import peer_times, workloads
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class PeerTimes:
    """Stored times of peers. A row has the fields of a best's baseline except speedup: name,
    time_us, max_error, level, and error if the peer could not be timed or is wrong."""

    rows: list[dict[str, Any]]
    measured_at: datetime


def store(
    engine: Engine,
    workload_key: str,
    device_id: int,
    baselines: Baselines,
    versions: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Store the times of a workload's peers in place of earlier ones.

    ``rows`` has a row for each peer that orders with these ``baselines`` want. ``versions`` are the
    versions on which the times depend. The workload must be stored, as any ordered one is."""
    workload_id = select(workloads.c.id).where(workloads.c.key == workload_key).scalar_subquery()
    values = {
        "workload_id": workload_id,
        "device_id": device_id,
        "baselines": baselines,
        "versions": dict(versions),
        "rows": [dict(row) for row in rows],
        "measured_at": now(),
    }
    identity = [peer_times.c.workload_id, peer_times.c.device_id, peer_times.c.baselines]
    with writing(engine) as connection:
        statement = upsert(connection, peer_times).values(**values)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=identity,
                set_={name: values[name] for name in ("versions", "rows", "measured_at")},
            )
        )


def find(
    engine: Engine,
    workload_key: str,
    device_id: int,
    baselines: Baselines,
    versions: Mapping[str, str],
) -> PeerTimes | None:
    """Return the stored times; None if there are none, or if they were measured with other
    versions."""
    query = (
        select(peer_times.c.versions, peer_times.c.rows, peer_times.c.measured_at)
        .join(workloads, workloads.c.id == peer_times.c.workload_id)
        .where(
            workloads.c.key == workload_key,
            peer_times.c.device_id == device_id,
            peer_times.c.baselines == baselines,
        )
    )
    with reading(engine) as connection:
        row = connection.execute(query).one_or_none()
    if row is None or row.versions != dict(versions):
        return None
    return PeerTimes(row.rows, utc(row.measured_at))
