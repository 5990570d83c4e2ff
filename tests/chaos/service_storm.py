"""A storm over the service: it is killed while customers and listeners use it and hands work."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlalchemy import Engine, select

from db.sql.engine import migrate, open_engine
from db.sql.tables import jobs, trials, workloads
from db.sql.transaction import reading
from tests.chaos.account import hold_against, look_over
from tests.chaos.crew import Crew
from tests.chaos.customer import Customer, Memory
from tests.chaos.damage import Damage
from tests.chaos.hand import Habits
from tests.chaos.listener import Listener
from tests.chaos.service import Service
from tests.chaos.storm import drawn

CUSTOMERS, LISTENERS, HANDS = 3, 3, 2
LEASE_SECONDS = 5.0
LONGEST_CALM = 1.0


def serve(
    url: str,
    folder: Path,
    blows: Mapping[str, int],
    seed: int,
    others: Mapping[str, Callable[[random.Random], None]] | None = None,
) -> Damage:
    """Run a storm over a service on a new database, and return the damage.

    The blow ``service killed`` kills the service; any other blow is a function in ``others``. The
    order and the moments of the blows are drawn with ``seed``.
    """
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()
    crew = Crew(url, folder, Habits(LEASE_SECONDS), seed, HANDS)
    service = Service(url, folder)
    listeners = [Listener(service.url, number) for number in range(LISTENERS)]

    def tell(job_id: str) -> None:
        for listener in listeners:
            listener.told.put(job_id)

    customers = [Customer(service.url, number, seed, tell) for number in range(CUSTOMERS)]
    for each in [*listeners, *customers]:
        each.start()
    draw = random.Random(seed)  # noqa: S311  # repeatable
    damage = Damage(blows=dict.fromkeys(blows, 0))
    struck = {"service killed": lambda _: service.kill()} | dict(others or {})
    try:
        for blow in drawn(draw, blows):
            time.sleep(draw.uniform(0, LONGEST_CALM))
            struck[blow](draw)
            damage.blows[blow] += 1
        for customer in customers:
            customer.leave()
        crew.finish(engine)
        for listener in listeners:
            listener.told.put(None)
            listener.join(60)
    finally:
        crew.close()
        service.stop()
    look_over(engine, damage)
    hold_against(engine, crew.diaries(), LEASE_SECONDS, damage)
    for customer in customers:
        _compare(engine, customer.memory, damage)
    _count_gaps(engine, listeners, damage)
    damage.done = {
        "orders": sum(len(customer.memory.orders) for customer in customers),
        "orders repeated": sum(customer.memory.repeated for customer in customers),
        "jobs listened to": sum(len(listener.heard) for listener in listeners),
        "streams resumed": sum(
            heard.streams - 1 for listener in listeners for heard in listener.heard
        ),
    }
    engine.dispose()
    return damage


def _compare(engine: Engine, memory: Memory, damage: Damage) -> None:
    """Add to ``damage`` where the database differs from a customer's memory.

    Each order must be there once, as the job that was answered. Each confirmed cancel must be
    stored.
    """
    with reading(engine) as connection:
        query = select(jobs.c.id, jobs.c.cancel_requested, workloads.c.workload).join(workloads)
        found = {row.id: row for row in connection.execute(query)}
    lengths = Counter(row.workload["M"] for row in found.values())
    for key, order in memory.orders.items():
        length, job_id = order["workload"]["M"], memory.answered.get(key)
        damage.doubled += lengths[length] > 1
        damage.lost += job_id not in found or found[job_id].workload["M"] != length
    damage.lost += sum(not found[job_id].cancel_requested for job_id in memory.cancelled)
    damage.refused += len(memory.refused)
    damage.reasons += sorted(set(memory.refused))
    damage.crashed += len(memory.wrong)
    damage.inconsistent += memory.wrong


def _count_gaps(engine: Engine, listeners: list[Listener], damage: Damage) -> None:
    with reading(engine) as connection:
        query = select(jobs.c.id).join(trials, trials.c.job_seq == jobs.c.seq)
        stored = Counter(connection.execute(query).scalars())
    for listener in listeners:
        assert not listener.is_alive()
        for heard in listener.heard:
            found = heard.gaps(stored[heard.job_id])
            damage.gaps += len(found)
            damage.inconsistent += found
