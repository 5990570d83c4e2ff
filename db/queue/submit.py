"""Taking an order: a new job, or the one that answers it already."""

import hashlib
from collections.abc import Mapping
from typing import Any
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
)
from sqlalchemy.exc import IntegrityError

from db.access.quota import charged
from db.contract.job import Job
from db.contract.order import JobOrder
from db.queue import idempotency
from db.queue.jobs import by_seq, restricted_to
from db.sql.columns import canonical, now, upsert
from db.sql.models import JOINABLE, bests, devices, jobs, listed_configs, trials, workloads
from db.sql.transaction import writing


def submit(engine: Engine, order: JobOrder, idempotency_key: str | None = None) -> tuple[Job, bool]:
    """The job for an order, and whether it was created by this call.

    Not created: the Idempotency-Key was seen with this order; or, with on_existing="reuse", a best
    with at least as many trials that worked is there, or of a search that was allowed at least as
    much and ended before (the job that made it); or an equal job is queued
    or running (one that is being cancelled does not count). Raises IdempotencyConflict,
    TooManyKeys, and QuotaExceeded if `engine` is somebody's (db/access/quota.py)."""
    while True:
        try:
            with writing(engine) as connection:
                return _submit(connection, order, idempotency_key)
        except IntegrityError as error:
            # a neighbour took the same order or key between our look and our insert: look again
            if "unique" not in str(error.orig).lower():
                raise


def _submit(connection: Connection, order: JobOrder, key: str | None) -> tuple[Job, bool]:
    order_key = _key_of(order)
    seq = idempotency.seen(connection, key, order_key) if key is not None else None
    if seq is not None:
        return by_seq(connection, seq), False
    if order.on_existing == "reuse":
        seq = _answered(connection, order)
    if seq is None:
        equal = select(jobs.c.seq).where(jobs.c.order_key == order_key, JOINABLE)
        seq = connection.execute(equal).scalar()
    created = seq is None
    if seq is None:
        seq = create(connection, {order_key: order})[order_key]
    if key is not None:
        idempotency.remember(connection, key, order_key, seq)
    return by_seq(connection, seq), created


def _key_of(order: JobOrder) -> str:
    return hashlib.sha256(canonical(order.compared()).encode()).hexdigest()


def _answered(connection: Connection, order: JobOrder) -> int | None:
    """The succeeded job behind a best of this workload that rests on enough trials that worked, or
    that was allowed as much as is ordered and ended before: by patience, by its budget, or with its
    space used up. An order that allows more is not answered by it. One that is restricted to
    templates is answered by their trials and their best; one that is not, by no search that was."""
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
    query = (
        select(bests.c.job_seq)
        .join(workloads, workloads.c.id == bests.c.workload_id)
        .join(devices, devices.c.id == bests.c.device_id)
        .join(jobs, jobs.c.seq == bests.c.job_seq)
        .where(
            workloads.c.key == order.workload_key,
            jobs.c.state == "succeeded",
            fits,
            or_(evidence.exists(), _allowed_as_much(order)),
        )
        .order_by(bests.c.time_us)
        .limit(1)
    )
    if order.target != "auto":
        query = query.where(devices.c.kind == order.target)
    return connection.execute(query).scalar()


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


def create(connection: Connection, orders: Mapping[str, JobOrder]) -> dict[str, int]:
    """New jobs, by the keys of their orders; their numbers. So many statements however many they
    are: whoever else writes to SQLite waits meanwhile. Raises QuotaExceeded."""
    payer = charged(connection, len(orders))  # first: whoever waits for its lock must hold no row
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
        created_at=now(),
    )
    made = statement.returning(jobs.c.order_key, jobs.c.seq)
    return {row.order_key: row.seq for row in connection.execute(made, rows)}
