"""Devices by fingerprint: results are kept per device."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.engine import RowMapping

from db.sql.columns import canonical, upsert
from db.sql.models import devices
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class Device:
    id: int
    kind: str  # "cpu" or "cuda"
    name: str
    arch: str
    memory_bytes: int
    driver: str
    limits: dict[str, Any]

    @classmethod
    def from_row(cls, row: RowMapping, prefix: str = "") -> "Device":
        fields = ("id", "kind", "name", "arch", "memory_bytes", "driver", "limits")
        return cls(**{field: row[prefix + field] for field in fields})


BESIDE = tuple(column.label(f"device_{column.name}") for column in devices.c if column.name != "id")
"""The columns of a device in a row of another table, which has its id as ``device_id``."""


def upsert_device(engine: Engine, fingerprint: Mapping[str, Any]) -> Device:
    """The device of a fingerprint (kind, name, arch, memory_bytes, driver, limits); the same one
    whenever all but its limits, which are replaced, are equal."""
    parts = {
        field: fingerprint[field] for field in ("kind", "name", "arch", "memory_bytes", "driver")
    }
    identity = hashlib.sha256(canonical(parts).encode()).hexdigest()
    with writing(engine) as connection:
        statement = (
            upsert(connection, devices)
            .values(**parts, identity=identity, limits=dict(fingerprint["limits"]))
            .on_conflict_do_update(
                index_elements=[devices.c.identity], set_={"limits": dict(fingerprint["limits"])}
            )
            .returning(devices)
        )
        return Device.from_row(connection.execute(statement).mappings().one())


def list_devices(engine: Engine) -> list[Device]:
    """All of them, in the order in which they were first seen."""
    with reading(engine) as connection:
        rows = connection.execute(select(devices).order_by(devices.c.id)).mappings()
        return [Device.from_row(row) for row in rows]
