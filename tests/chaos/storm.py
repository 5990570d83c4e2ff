"""Hands at work while they are killed, paused beyond their leases, and their database restarted;
then what is stored is held against what they wrote down."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select, text

from db.engine import migrate, open_engine
from db.models import bests, jobs, trials
from db.transaction import reading
from tests.chaos.hand import work
from tests.db.storage_rows import submitted

HANDS = 4
TRIALS = (2, 6)
FORK = multiprocessing.get_context("fork")  # a tenth of a second less than a new interpreter


@dataclass(frozen=True)
class Storm:
    """``kills``, ``pauses`` and ``restarts`` are done one after the other, in an order drawn with
    ``seed``, up to ``longest_calm`` seconds apart. ``restart`` stops and starts the database."""

    kills: int
    pauses: int
    lease_seconds: float
    seed: int
    jobs: int
    restarts: int = 0
    restart: Callable[[], None] | None = None
    longest_calm: float = 0.3


@dataclass
class Damage:
    """What came of it. ``unended``, ``lost``, ``doubled``, ``stale`` and ``without_best`` must be
    0; ``refused`` are writes of attempts that had lost their leases."""

    kills: int = 0
    pauses: int = 0
    restarts: int = 0
    trials: int = 0
    unended: int = 0
    lost: int = 0
    doubled: int = 0
    stale: int = 0
    without_best: int = 0
    integrity: str = "ok"
    refused: int = 0
    longest_orphan_seconds: float = 0.0
    states: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def rage(url: str, folder: Path, storm: Storm) -> Damage:
    """Let it pass over a new database."""
    engine = open_engine(url)
    migrate(engine)
    draw = random.Random(storm.seed)  # noqa: S311  # repeatable
    for number in range(storm.jobs):
        submitted(engine, 64 + number, target="cpu", trials=draw.randint(*TRIALS))
    engine.dispose()  # a connection must not be shared with what is forked
    damage, crew = Damage(), _Crew(url, folder, storm)
    blows = ["kill"] * storm.kills + ["pause"] * storm.pauses + ["restart"] * storm.restarts
    draw.shuffle(blows)
    for blow in blows:
        time.sleep(draw.uniform(0, storm.longest_calm))
        if blow == "kill":
            crew.kill(draw.randrange(HANDS))
            damage.kills += 1
        elif blow == "pause":
            crew.pause(draw.randrange(HANDS))
            damage.pauses += 1
        elif storm.restart is not None:
            storm.restart()
            damage.restarts += 1
    crew.finish(engine)
    _account(engine, crew.diaries(), damage)
    engine.dispose()
    return damage


class _Crew:
    def __init__(self, url: str, folder: Path, storm: Storm) -> None:
        self._url, self._folder, self._storm = url, folder, storm
        self._stop, self._born = folder / "stop", 0
        self._hands = [self._start() for _ in range(HANDS)]

    def kill(self, which: int) -> None:
        self._hands[which].kill()
        self._hands[which].join()
        self._hands[which] = self._start()

    def pause(self, which: int) -> None:
        """Longer than its lease, so that another takes its job; then it goes on."""
        pid = self._hands[which].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2 * self._storm.lease_seconds)
        os.kill(pid, signal.SIGCONT)

    def finish(self, engine: Engine) -> None:
        """Wait until no job is left, or nothing has moved for three leases."""
        waiting, seen = time.monotonic(), -1
        while True:
            with reading(engine) as connection:
                states = Counter(connection.execute(select(jobs.c.state)).scalars())
            open_ = states["queued"] + states["running"]
            if open_ == 0:
                break
            if open_ != seen:
                seen, waiting = open_, time.monotonic()
            if time.monotonic() - waiting > 3 * self._storm.lease_seconds + 30:
                break
            time.sleep(0.2)
        self._stop.touch()
        for hand in self._hands:
            hand.join(timeout=30)
            hand.kill()
            hand.join()

    def diaries(self) -> list[dict[str, Any]]:
        lines = []
        for path in self._folder.glob("diary-*"):
            # the last line of one that was killed may be cut
            whole = path.read_text().split("\n")[:-1]
            lines += [json.loads(line) for line in whole]
        return sorted(lines, key=lambda line: float(line["at"]))

    def _start(self) -> Any:
        self._born += 1
        name = f"hand {self._born}"
        diary = self._folder / f"diary-{self._born}"
        seed = self._storm.seed * 10_000 + self._born
        hand = FORK.Process(
            target=work,
            args=(self._url, diary, self._stop, name, seed, self._storm.lease_seconds),
            daemon=True,
        )
        hand.start()
        return hand


def _account(engine: Engine, diary: list[dict[str, Any]], damage: Damage) -> None:
    with reading(engine) as connection:
        stored: dict[str, list[dict[str, Any]]] = defaultdict(list)
        query = select(jobs.c.id, trials.c.number, trials.c.config).join(
            jobs, jobs.c.seq == trials.c.job_seq
        )
        for row in connection.execute(query.order_by(trials.c.job_seq, trials.c.number)):
            stored[row.id].append(row.config)
        ended = {row.id: row for row in connection.execute(select(jobs))}
        with_best = set(connection.execute(select(bests.c.job_seq)).scalars())
        if engine.dialect.name == "sqlite":
            damage.integrity = str(connection.execute(text("PRAGMA integrity_check")).scalar())
    damage.trials = sum(map(len, stored.values()))
    damage.states = dict(Counter(job.state for job in ended.values()))
    damage.unended = sum(job.state in ("queued", "running") for job in ended.values())
    damage.without_best = sum(
        job.state == "succeeded" and job.seq not in with_best for job in ended.values()
    )
    for job_id, configs in stored.items():
        knobs = [config["knob"] for config in configs]
        damage.doubled += len(knobs) - len(set(knobs))
        # attempts only ever grow: an older one's write behind a newer one's was stale
        by = [config["by"] for config in configs]
        damage.stale += sum(after < before for before, after in itertools.pairwise(by))
        damage.stale += ended[job_id].attempt < max(by)
    kept = {json.dumps(config, sort_keys=True) for each in stored.values() for config in each}
    for line in diary:
        if line["event"] == "stored":
            damage.lost += json.dumps(line["config"], sort_keys=True) not in kept
        elif line["event"] == "ended":
            damage.lost += ended[line["job"]].state != "succeeded"
        damage.refused += line["event"] == "refused"
    damage.longest_orphan_seconds = _longest_orphan(diary)


def _longest_orphan(diary: list[dict[str, Any]]) -> float:
    """The longest time between the last line of an attempt and the claim of the next."""
    last: dict[str, tuple[int, float]] = {}
    longest = 0.0
    for line in diary:
        attempt, before = last.get(line["job"], (line["attempt"], line["at"]))
        if line["event"] == "claimed" and line["attempt"] > attempt:
            longest = max(longest, line["at"] - before)
        if line["attempt"] >= attempt:
            last[line["job"]] = line["attempt"], line["at"]
    return longest
