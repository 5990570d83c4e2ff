"""Taking an order: a new job, or the one that answers it already."""

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

from db.access.quota import charged
from db.contract.job import Job
from db.contract.order import PREDICTED, JobOrder
from db.queue import idempotency
from db.queue.jobs import by_seq, restricted_to
from db.sql.columns import canonical, now, upsert
from db.sql.models import JOINABLE, bests, devices, jobs, listed_configs, trials, workloads
from db.sql.transaction import writing

T = TypeVar("T")


def submit(engine: Engine, order: JobOrder, idempotency_key: str | None = None) -> tuple[Job, bool]:
    """The job for an order, and whether it was created by this call.

    Not created: the Idempotency-Key was seen with this order; or, with on_existing="reuse", a best
    with at least as many trials that worked is there, or of a search that was allowed at least as
    much and ended before (the job that made it); or an equal job is queued
    or running (one that is being cancelled does not count). Raises IdempotencyConflict,
    TooManyKeys, and QuotaExceeded if `engine` is somebody's (db/access/quota.py)."""
    return in_turn(engine, lambda connection: _submit(connection, order, idempotency_key))


def in_turn(engine: Engine, take: Callable[[Connection], T]) -> T:
    """What `take` makes of an order in one transaction. If a neighbour took the same order or key
    between its look and its insert, it looks again."""
    while True:
        try:
            with writing(engine) as connection:
                return take(connection)
        except IntegrityError as error:
            if "unique" not in str(error.orig).lower():
                raise


def _submit(connection: Connection, order: JobOrder, key: str | None) -> tuple[Job, bool]:
    order_key = key_of(order.compared())
    seq = idempotency.seen(connection, key, order_key) if key is not None else None
    if seq is not None:
        return by_seq(connection, seq), False
    [(seq, created)] = taken(connection, [order])
    if key is not None:
        idempotency.remember(connection, key, order_key, seq)
    return by_seq(connection, seq), created


def key_of(compared: Mapping[str, Any]) -> str:
    """By which two orders are equal, in a few letters."""
    return hashlib.sha256(canonical(compared).encode()).hexdigest()


def taken(
    connection: Connection, orders: Sequence[JobOrder], *, own: bool = True
) -> list[tuple[int, bool]]:
    """The number of the job for each order, and whether it is new. The orders are of different
    workloads on the same terms. `own` says that they are orders by themselves, not of a model. So
    many statements however many orders there are. Raises QuotaExceeded."""
    reused = _answered(connection, orders) if orders[0].on_existing == "reuse" else {}
    wanted = {
        key_of(order.compared()): order for order in orders if order.workload_key not in reused
    }
    equal = (
        select(jobs.c.order_key, jobs.c.seq, jobs.c.own_order)
        .where(jobs.c.order_key.in_(list(wanted)), JOINABLE)
        .order_by(jobs.c.seq)
        .with_for_update(key_share=True)  # nobody cancels one for whom it was meanwhile
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


def _answered(connection: Connection, orders: Sequence[JobOrder]) -> dict[str, int]:
    """By the keys of workloads: the succeeded job behind a best that rests on enough trials that
    worked, or that was allowed as much as is ordered and ended before: by patience, by its budget,
    or with its space used up. An order that allows more is not answered by it. One that is
    restricted to templates is answered by their trials and their best; one that is not, by no
    search that was. What was only predicted answers no order of a search. The orders are on the
    same terms."""
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
        .offset(order.trials - 1)  # one is enough to know: no counting under the writer's lock
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
        .order_by(bests.c.time_us.desc())  # the fastest is kept
    )
    if order.target != "auto":
        query = query.where(devices.c.kind == order.target)
    return {row.key: row.job_seq for row in connection.execute(query)}


def _allowed_as_much(order: JobOrder) -> ColumnElement[bool]:
    """Of a job: whether it searched, and none of its limits is below the order's."""
    listed = exists().where(listed_configs.c.job_seq == jobs.c.seq)
    return and_(
        not_(listed),
        bests.c.templates == restricted_to(order.templates),
        jobs.c.trials_requested >= order.trials,
        _no_lower(jobs.c.patience, order.patience),
        _no_lower(jobs.c.budget_seconds, order.budget_seconds),
    )


def _no_lower(limit: Column[Any], ordered: float | None) -> ColumnElement[bool]:
    """None is no limit at all."""
    none = limit.is_(None)
    return none if ordered is None else or_(none, limit >= ordered)


def create(
    connection: Connection, orders: Mapping[str, JobOrder], *, own: bool = True
) -> dict[str, int]:
    """New jobs, by the keys of their orders; their numbers. So many statements however many they
    are: whoever else writes to SQLite waits meanwhile. Raises QuotaExceeded."""
    # before anything is written: who has this lock may wait for such a row
    payer = charged(connection, len(orders))
    asked = {order.workload_key: order for order in orders.values()}
    connection.execute(
        upsert(connection, workloads).on_conflict_do_nothing(),
        [
            {"key": key, "operator": asked[key].operator, "workload": asked[key].workload}
            for key in sorted(asked)  # two that insert the same wait for each other in turn
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
