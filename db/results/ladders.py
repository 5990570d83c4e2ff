"""Measured ladders. There is one for each workload and device: a new measurement replaces it."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select
from sqlalchemy.engine import RowMapping

from db.fleet.devices import DEVICE_COLUMNS, Device
from db.sql.columns import now, storable, upsert, utc
from db.sql.pages import Page, page, read_cursor
from db.sql.tables import devices, ladders, workloads
from db.sql.transaction import reading, writing


@dataclass(frozen=True)
class NewLadder:
    """A measured ladder to store."""

    operator: str
    workload_key: str
    workload: dict[str, Any]
    device_id: int
    rows: list[dict[str, Any]]  # rungs in order, then what they are compared with
    documents: list[dict[str, Any]]  # where the rungs are from: number, title, workload
    clocks: dict[str, Any]
    versions: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ladder(NewLadder):
    """A stored ladder."""

    id: int
    device: Device
    climbed_at: datetime


def record(engine: Engine, new: NewLadder) -> int:
    """Store a ladder in place of an earlier one of the same workload on the same device, and return
    its id."""
    values = asdict(new)
    workload = {name: values.pop(name) for name in ("operator", "workload_key", "workload")}
    with writing(engine) as connection:
        workload_id = _workload(connection, **workload)
        earlier = ladders.c.workload_id == workload_id, ladders.c.device_id == new.device_id
        connection.execute(delete(ladders).where(*earlier))
        statement = insert(ladders).values(workload_id=workload_id, climbed_at=now(), **values)
        return int(connection.execute(statement.returning(ladders.c.id)).scalar_one())


def list_ladders(
    engine: Engine,
    operator: str,
    kind: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Ladder]:
    """Return a page of an operator's ladders, newest first. `kind` keeps those of one kind of
    device; None keeps all. Raises BadCursor."""
    if not storable(operator):
        return Page([], None)
    query = (
        select(
            ladders,
            workloads.c.key.label("workload_key"),
            workloads.c.operator,
            workloads.c.workload,
            *DEVICE_COLUMNS,
        )
        .join(workloads, workloads.c.id == ladders.c.workload_id)
        .join(devices, devices.c.id == ladders.c.device_id)
        .where(workloads.c.operator == operator)
        .order_by(ladders.c.id.desc())
        .limit(limit + 1)
    )
    if kind is not None:
        query = query.where(devices.c.kind == kind)
    if cursor is not None:
        query = query.where(ladders.c.id < read_cursor("ladders", cursor))
    with reading(engine) as connection:
        found = [_ladder(row) for row in connection.execute(query).mappings()]
    return page("ladders", limit, found, [ladder.id for ladder in found])


def _workload(
    connection: Connection, operator: str, workload_key: str, workload: dict[str, Any]
) -> int:
    """Return the workload's id, after storing the workload if it is new. Lock its row."""
    connection.execute(
        upsert(connection, workloads)
        .values(key=workload_key, operator=operator, workload=workload)
        .on_conflict_do_nothing()
    )
    # locked: if two ladders end at once, the second one sees the first and replaces it
    query = select(workloads.c.id).where(workloads.c.key == workload_key).with_for_update()
    return int(connection.execute(query).scalar_one())


def _ladder(row: RowMapping) -> Ladder:
    return Ladder(
        id=row["id"],
        **{name: row[name] for name in NewLadder.__dataclass_fields__},
        device=Device.from_row(row, "device_"),
        climbed_at=utc(row["climbed_at"]),
    )
