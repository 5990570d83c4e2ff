"""A comparison of what is stored after a storm with what the database had confirmed before."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from typing import Any

from sqlalchemy import Engine, select

from db.sql.tables import bests, jobs, trials
from db.sql.transaction import reading
from db.upkeep.check import check
from tests.chaos.damage import Damage

CLOCK_SECONDS = 0.005
"""Tolerance of a comparison of times: SQLite reads the clock to the millisecond."""

Line = dict[str, Any]


def look_over(engine: Engine, damage: Damage) -> None:
    """Add to ``damage`` the findings from the database alone.

    They are the jobs' states, trials that are missing or stored twice, and the findings of
    ``tuner db check``.
    """
    with reading(engine) as connection:
        rows = connection.execute(select(jobs)).all()
        with_best = set(connection.execute(select(bests.c.job_seq)).scalars())
        stored = connection.execute(
            select(trials.c.job_seq, trials.c.number, trials.c.config_key).order_by(
                trials.c.job_seq, trials.c.number
            )
        ).all()
    damage.trials = len(stored)
    damage.states = dict(Counter(job.state for job in rows))
    damage.unended = sum(job.state in ("queued", "running") for job in rows)
    damage.without_best = sum(job.state == "succeeded" and job.seq not in with_best for job in rows)
    for _, of_job in itertools.groupby(stored, key=lambda row: row.job_seq):
        own = list(of_job)
        damage.doubled += len(own) - len({row.config_key for row in own})
        numbers = [row.number for row in own]
        damage.lost += numbers != list(range(1, len(own) + 1))
    damage.inconsistent = check(engine).wrong


def hold_against(engine: Engine, diary: list[Line], lease_seconds: float, damage: Damage) -> None:
    """Add to ``damage`` the findings from comparing the hands' diaries with the database.

    A write that a diary calls stored must be there. A trial of an older attempt must not come after
    one of a newer attempt. A job must not be claimed while its lease is good.
    """
    with reading(engine) as connection:
        stored: dict[str, list[Line]] = defaultdict(list)
        query = select(jobs.c.id, trials.c.config).join(jobs, jobs.c.seq == trials.c.job_seq)
        for row in connection.execute(query.order_by(trials.c.job_seq, trials.c.number)):
            stored[row.id].append(row.config)
        ended = {row.id: row for row in connection.execute(select(jobs))}
    for job_id, configs in stored.items():
        knobs = [config["knob"] for config in configs]
        damage.doubled += len(knobs) - len(set(knobs))
        # attempts only grow, so an older attempt's trial after a newer one's was a stale write
        by = [config["by"] for config in configs]
        damage.stale += sum(after < before for before, after in itertools.pairwise(by))
        damage.stale += ended[job_id].attempt < max(by)
    kept = {json.dumps(config, sort_keys=True) for each in stored.values() for config in each}
    reasons = Counter(_reason(line) for line in diary if line["event"] == "refused")
    damage.refused += reasons.total()
    damage.reasons += sorted(reasons)
    for line in diary:
        if line["event"] == "stored":
            damage.lost += json.dumps(line["config"], sort_keys=True) not in kept
        elif line["event"] == "ended":
            damage.lost += ended[line["job"]].state != line["state"]
        elif line["event"] == "crashed":
            damage.crashed += 1
            damage.inconsistent.append(line["traceback"].strip().splitlines()[-1])
    of_jobs: dict[str, list[Line]] = defaultdict(list)
    for line in diary:
        if "job" in line:
            of_jobs[line["job"]].append(line)
    for lines in of_jobs.values():
        damage.early += _early(lines, lease_seconds)
        damage.longest_orphan_seconds = max(damage.longest_orphan_seconds, _longest_orphan(lines))


def _reason(line: Line) -> str:
    """Return the reason for a refusal without the names that differ from job to job."""
    reason = str(line["reason"]).splitlines()[0]
    _, found, cause = reason.partition(" is not available: ")
    return cause if found else "lease_lost"


def _early(lines: list[Line], lease_seconds: float) -> int:
    """Return the number of claims of a job while an earlier attempt's lease was still good.

    ``since`` is the moment before a hand asked for a lease, so the lease holds at least
    ``lease_seconds`` from then.
    """
    good_until: dict[int, float] = {}
    early = 0
    for line in lines:
        if line["event"] == "claimed":
            before = [until for attempt, until in good_until.items() if attempt < line["attempt"]]
            early += any(line["at"] < until - CLOCK_SECONDS for until in before)
        if "since" in line:
            good_until[line["attempt"]] = line["since"] + lease_seconds
    return early


def _longest_orphan(lines: list[Line]) -> float:
    """Return the longest time, s, between an attempt's last line and the claim of the next."""
    attempt, last, longest = 0, lines[0]["at"], 0.0
    for line in lines:
        if line["event"] == "claimed" and line["attempt"] > attempt:
            longest = max(longest, line["at"] - last)
        if line["attempt"] >= attempt:
            attempt, last = line["attempt"], line["at"]
    return longest
