"""The state of a soak's database and the content of the service's log at its end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from db.sql.tables import jobs, trials
from db.sql.transaction import reading
from db.upkeep.check import check

KEPT = 10
UNENDED = ("queued", "running")


@dataclass
class Accounts:
    """Counts of jobs, trials and answers, and everything that is wrong with them.

    ``states`` counts jobs by state, ``unended`` those queued or running, ``answers`` the service's
    answers by status. ``torn`` are the jobs whose trials are not numbered from 1 without a gap, or
    whose counter differs from their trials. ``wrong`` are the findings of ``tuner db check``.
    ``errors`` are the first ten lines of the service's log on level error or critical.
    """

    states: dict[str, int] = field(default_factory=dict)
    trials: int = 0
    unended: int = 0
    torn: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def settle(engine: Engine, log: Path) -> Accounts:
    """Return the accounts of everything in the database and of the service's whole log."""
    accounts = Accounts(wrong=check(engine).wrong)
    stored = select(trials.c.job_seq, func.count().label("rows"), func.max(trials.c.number))
    with reading(engine) as connection:
        rows = {row[0]: tuple(row[1:]) for row in connection.execute(stored.group_by("job_seq"))}
        for job in connection.execute(select(jobs)):
            accounts.states[job.state] = accounts.states.get(job.state, 0) + 1
            count, last = rows.get(job.seq, (0, 0))
            counted = job.trials_measured if job.state == "succeeded" else count
            if not count == last == counted:  # numbers of a job are unique
                accounts.torn.append(f"{job.id}: {count} trials up to {last}, {counted} counted")
    accounts.trials = sum(count for count, _ in rows.values())
    accounts.unended = sum(accounts.states.get(state, 0) for state in UNENDED)
    answers: Counter[int] = Counter()
    for line in _lines(log):
        if line["event"] == "request":
            answers[line["status"]] += 1
        if line["level"] in ("error", "critical") and len(accounts.errors) < KEPT:
            accounts.errors.append(json.dumps(line)[:500])
    accounts.answers = dict(sorted(answers.items()))
    return accounts


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    with log.open() as file:
        for line in file:
            yield json.loads(line)
