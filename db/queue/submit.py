"""Taking orders: each gets a new job, or an existing one that answers it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    and_,
    exists,
    insert,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from db.access.quota import charge
from db.contract.job import Job
from db.contract.order import PREDICTED, JobOrder
from db.queue import idempotency
from db.queue.jobs import by_seq, templates_text
from db.sql.columns import canonical, now, upsert
from db.sql.tables import JOINABLE, bests, devices, jobs, listed_configs, trials, workloads
from db.sql.transaction import is_duplicate, writing

T = TypeVar("T")


def submit(
    engine: Engine,
    order: JobOrder,
    idempotency_key: str | None = None,
    reused_on: str | None = None,
) -> tuple[Job, bool]:
    """Return the job for an order, and whether this call created it.

    The order gets an existing job if one of these holds:

    - The Idempotency-Key was sent with this order before.
    - An equal job is queued or running, and is not being cancelled.
    - ``on_existing`` is "reuse", and a stored best rests on at least as many ok trials as are
      ordered, or comes from a search that was allowed at least as much as is ordered. The order
      then gets the succeeded job that made the best. The best's device must have the name
      `reused_on`, and the name in the order's `for_device`, if these are given.

    Raises IdempotencyConflict, TooManyKeys, and QuotaExceeded if orders through `engine` are
    charged to somebody (db/access/quota.py)."""
    return retry_on_conflict(
        engine, lambda connection: _submit(connection, order, idempotency_key, reused_on)
    )


def retry_on_conflict(engine: Engine, take: Callable[[Connection], T]) -> T:
    """Call `take`, which looks for an existing job and creates one, in a transaction of its own,
    and return its result.

    If another process stores the same order or key between the look and the insert, the insert
    violates a unique index. `take` then runs again in a new transaction."""
    while True:
        try:
            with writing(engine) as connection:
                return take(connection)
        except IntegrityError as error:
            if not is_duplicate(error):
                raise


def _submit(
    connection: Connection, order: JobOrder, key: str | None, reused_on: str | None
) -> tuple[Job, bool]:
    order_key = hash_fields(order.compared_fields())
    seq = idempotency.seen(connection, key, order_key) if key is not None else None
    if seq is not None:
        return by_seq(connection, seq), False
    [(seq, created)] = find_or_create_jobs(connection, [order], reused_on=reused_on)
    if key is not None:
        idempotency.remember(connection, key, order_key, seq)
    return by_seq(connection, seq), created


def hash_fields(compared: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of the fields by which orders are compared. It is stored
    as ``order_key``."""
    return hashlib.sha256(canonical(compared).encode()).hexdigest()


def find_or_create_jobs(
    connection: Connection,
    orders: Sequence[JobOrder],
    *,
    own: bool = True,
    reused_on: str | None = None,
) -> list[tuple[int, bool]]:
    """Return for each order the number (``seq``) of its job, and whether that job is new.

    The orders are of different workloads and on the same terms. `own` is false if a model orders
    them. `reused_on` is as in `submit`. The number of statements does not depend on the number of
    orders. Raises QuotaExceeded."""
    first = orders[0]
    reused = _answered(connection, orders, reused_on) if first.on_existing == "reuse" else {}
    wanted = {
        hash_fields(order.compared_fields()): order
        for order in orders
        if order.workload_key not in reused
    }
    equal = (
        select(jobs.c.order_key, jobs.c.seq, jobs.c.own_order)
        .where(jobs.c.order_key.in_(list(wanted)), JOINABLE)
        .order_by(jobs.c.seq)
        .with_for_update(key_share=True)  # so that nobody cancels such a job meanwhile
    )
    waiting = {row.order_key: row for row in connection.execute(equal)}
    if own and (joined := [row.seq for row in waiting.values() if not row.own_order]):
        connection.execute(update(jobs).where(jobs.c.seq.in_(joined)).values(own_order=True))
    new = {key: order for key, order in wanted.items() if key not in waiting}
    made = create(connection, new, own=own) if new else {}
    found = {workload: (seq, False) for workload, seq in reused.items()}
    for key, order in wanted.items():
        found[order.workload_key] = (made[key], True) if key in made else (waiting[key].seq, False)
    return [found[order.workload_key] for order in orders]


def _answered(connection: Connection, orders: Sequence[JobOrder], on: str | None) -> dict[str, int]:
    """Return the numbers of the succeeded jobs that answer these orders, by the workloads' keys. An
    order is left out if its workload has no best that is good enough. The orders are on the same
    terms.

    A best is good enough if its workload has as many ok trials on the device as are ordered. It is
    also good enough if its search was allowed at least as much as is ordered, and ended early: by
    patience, by its budget, with its space used up, or with some trials that failed.

    If the order is restricted to templates, only trials and bests of these templates count. If it
    is not, bests of restricted searches do not count. A predicted best does not answer an order of
    a search."""
    order = orders[0]
    tried = [
        trials.c.workload_id == bests.c.workload_id,
        trials.c.device_id == bests.c.device_id,
        trials.c.status == "ok",
    ]
    if order.templates is None:
        fits = bests.c.templates == ""
    else:
        tried.append(trials.c.template.in_(order.templates))
        fits = bests.c.template.in_(order.templates)
    evidence = (
        select(trials.c.id)
        .where(*tried)
        .correlate(bests)
        .offset(order.trials - 1)  # cheaper than counting, while the writer's lock is held
        .limit(1)
    )
    searched = [] if order.search == PREDICTED else [jobs.c.search != PREDICTED]
    query = (
        select(workloads.c.key, bests.c.job_seq)
        .join(workloads, workloads.c.id == bests.c.workload_id)
        .join(devices, devices.c.id == bests.c.device_id)
        .join(jobs, jobs.c.seq == bests.c.job_seq)
        .where(
            workloads.c.key.in_([each.workload_key for each in orders]),
            jobs.c.state == "succeeded",
            *searched,
            fits,
            or_(evidence.exists(), _allowed_as_much(order)),
        )
        .order_by(bests.c.time_us.desc())  # of several rows of a key, the dict keeps the last
    )
    if order.target != "auto":
        query = query.where(devices.c.kind == order.target)
    for name in (order.for_device, on):
        if name is not None:
            query = query.where(devices.c.name == name)
    return {row.key: row.job_seq for row in connection.execute(query)}


def _allowed_as_much(order: JobOrder) -> ColumnElement[bool]:
    """Return an SQL condition: the best's job searched the order's templates, with limits that are
    all at least the order's. A job with a list of configurations did not search."""
    listed = exists().where(listed_configs.c.job_seq == jobs.c.seq)
    return and_(
        not_(listed),
        bests.c.templates == templates_text(order.templates),
        jobs.c.trials_requested >= order.trials,
        _no_lower(jobs.c.patience, order.patience),
        _no_lower(jobs.c.budget_seconds, order.budget_seconds),
    )


def _no_lower(limit: Column[Any], ordered: float | None) -> ColumnElement[bool]:
    """Return an SQL condition: a job's limit is at least the ordered one. None means no limit."""
    none = limit.is_(None)
    return none if ordered is None else or_(none, limit >= ordered)


def create(
    connection: Connection, orders: Mapping[str, JobOrder], *, own: bool = True
) -> dict[str, int]:
    """Insert a queued job for each order, and return its number (``seq``) by the order's key.

    The number of statements does not depend on the number of orders, because other writers to
    SQLite wait meanwhile. Raises QuotaExceeded."""
    # before any write: another process may have the quota's lock and wait for rows written here
    payer = charge(connection, len(orders))
    asked = {order.workload_key: order for order in orders.values()}
    connection.execute(
        upsert(connection, workloads).on_conflict_do_nothing(),
        [
            {"key": key, "operator": asked[key].operator, "workload": asked[key].workload}
            for key in sorted(asked)  # all processes use this order, so that none deadlock
        ],
    )
    known = select(workloads.c.key, workloads.c.id).where(workloads.c.key.in_(list(asked)))
    ids = {row.key: row.id for row in connection.execute(known)}
    rows = [
        {
            "id": uuid4().hex,
            "order_key": order_key,
            "workload_id": ids[order.workload_key],
            **order.to_row(),
        }
        for order_key, order in orders.items()
    ]
    statement = insert(jobs).values(
        state="queued",
        cancel_requested=False,
        attempt=0,
        released=0,
        trials_measured=0,
        trials_ok=0,
        trials_failed=0,
        ordered_by=payer,
        own_order=own,
        created_at=now(),
    )
    made = statement.returning(jobs.c.order_key, jobs.c.seq)
    return {row.order_key: row.seq for row in connection.execute(made, rows)}
