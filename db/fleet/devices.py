"""Devices, to which results belong. A device is recognized by its fingerprint."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.engine import RowMapping

from db.sql.columns import canonical, upsert
from db.sql.tables import devices
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class Device:
    """A stored device."""

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

    @property
    def names(self) -> tuple[str, str]:
        """Return the texts by which users may name the device: its name, and its id in digits."""
        return self.name, str(self.id)


DEVICE_COLUMNS = tuple(
    column.label(f"device_{column.name}") for column in devices.c if column.name != "id"
)
"""The columns of a device, to select beside a table that has its id as ``device_id``.
``Device.from_row(row, "device_")`` reads them."""


def device_name(engine: Engine, called: str) -> str:
    """Return the name of the device with this name or id. An unknown text is returned unchanged."""
    found = (each.name for each in list_devices(engine) if called in each.names)
    return next(found, called)


def kinds_named(engine: Engine, name: str) -> set[str]:
    """Return the kinds of the devices of this name; empty if none is known."""
    return {each.kind for each in list_devices(engine) if each.name == name}


def upsert_device(engine: Engine, fingerprint: Mapping[str, Any]) -> Device:
    """Return the device with this fingerprint, and store it if it is new.

    A fingerprint has kind, name, arch, memory_bytes, driver and limits. Fingerprints that differ
    only in their limits are of the same device. The given limits replace the stored ones."""
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
    """Return all devices in the order in which they were first seen."""
    with reading(engine) as connection:
        rows = connection.execute(select(devices).order_by(devices.c.id)).mappings()
        return [Device.from_row(row) for row in rows]
