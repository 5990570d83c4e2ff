"""A storm over hands: they are killed, paused beyond their leases, and their database is harmed.

Afterwards the database is compared with their diaries.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from db.sql.engine import migrate, open_engine
from tests.chaos.account import hold_against, look_over
from tests.chaos.crew import Crew
from tests.chaos.damage import Damage
from tests.chaos.hand import Habits
from tests.db.storage_rows import submitted

HANDS = 4
TRIALS = (2, 6)
JOBS_A_SECOND = 25
"""Jobs to order for each second of a storm: more than the hands can do, so that all are busy."""


@dataclass(frozen=True)
class Storm:
    """The blows of a storm and how the hands work during it.

    ``blows`` says how often each blow is struck: ``kill`` and ``pause`` hit a hand, any other is a
    function in ``others``. Blows come one after the other, in an order drawn with ``seed``, up to
    ``longest_calm`` seconds apart. ``jobs`` is the number of jobs that are ordered at the start.
    """

    blows: Mapping[str, int]
    habits: Habits
    seed: int
    jobs: int
    others: Mapping[str, Callable[[random.Random], None]] = field(default_factory=dict)
    longest_calm: float = 0.2


def rage(url: str, folder: Path, storm: Storm) -> Damage:
    """Run the storm over a new database and return the damage; diaries go into ``folder``."""
    engine = open_engine(url)
    migrate(engine)
    draw = random.Random(storm.seed)  # noqa: S311  # repeatable
    for number in range(storm.jobs):
        submitted(engine, 64 + number, target="cpu", trials=draw.randint(*TRIALS))
    engine.dispose()  # forked processes must not share a connection
    crew = Crew(url, folder, storm.habits, storm.seed, HANDS)
    own = {
        "kill": lambda draw: crew.kill(draw.randrange(HANDS)),
        "pause": lambda draw: crew.pause(draw.randrange(HANDS)),
    }
    damage = Damage(blows=dict.fromkeys(storm.blows, 0))
    try:
        for blow in drawn(draw, storm.blows):
            time.sleep(draw.uniform(0, storm.longest_calm))
            (own | dict(storm.others))[blow](draw)
            damage.blows[blow] += 1
        crew.finish(engine)
    finally:
        crew.close()
    look_over(engine, damage)
    hold_against(engine, crew.diaries(), storm.habits.lease_seconds, damage)
    engine.dispose()
    return damage


def drawn(draw: random.Random, blows: Mapping[str, int]) -> list[str]:
    """Return the names of all blows, each as often as asked for, in random order."""
    names = [name for name, count in blows.items() for _ in range(count)]
    draw.shuffle(names)
    return names
