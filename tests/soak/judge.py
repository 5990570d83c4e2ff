"""Where a bar is missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mode

import numpy as np

from tests.soak.idle import Idle
from tests.soak.samples import Sample
from tests.soak.soak import Outcome

GROWTH = 0.05
JUDGED_FROM_SECONDS = 1200.0
"""A shorter soak ends while caches still fill."""
EARLY, LATE = (1 / 6, 1 / 4), (11 / 12, 1.0)
"""Parts of the soak whose medians are compared: of an hour, minutes 10 to 15 and the last 5."""
BOUNDS = {
    "api_connections": 6,
    "api_database_descriptors": 41,
    "worker_connections": 5,
    "worker_database_descriptors": 40,
}
"""Of what one process holds of the database: SQLAlchemy's pool keeps five connections, and opens 35
more where they are wanted at once (db/sql/engine.py); the service has one beside it
(api/route_helpers/nonblocking.py). Pools fill up as it comes, so the first rest is no measure."""
ENDED_WELL = {"api": (0, -15), "worker-a": (0,)}
"""Exit codes: uvicorn, having stopped, ends by the signal that it was stopped with."""
BROKEN_OFF = 1e-3
"""Of all requests, the share that may have had no answer: the machine's hiccups, not the
service's."""

MEMORY: dict[str, Callable[[Sample], float]] = {
    "API": lambda sample: sample.api.rss_mb,
    "worker": lambda sample: sample.worker.rss_mb,
    "worker's tree": lambda sample: sample.tree_rss_mb,
    "worker's builder": lambda sample: sample.builder_rss_mb,
}


def usual(samples: Sequence[Sample]) -> list[Sample]:
    """Those with as many descendants of the worker as most have: a process more or less, as each
    job starts and ends some, is no growth."""
    most = mode(sample.descendants for sample in samples)
    return [sample for sample in samples if sample.descendants == most]


def growth(outcome: Outcome) -> dict[str, tuple[float, float, float]]:
    """By what is judged: median early and late, MB, and by which part of the first it grew."""
    seconds, samples = outcome.plan.seconds, usual(outcome.samples)
    grown = {}
    for name, of in MEMORY.items():
        early, late = (
            _median([of(s) for s in samples if begin * seconds <= s.at < end * seconds])
            for begin, end in (EARLY, LATE)
        )
        grown[name] = early, late, late / early - 1
    return grown


def missed(outcome: Outcome) -> list[str]:
    """A sentence for each bar; empty where all are met."""
    return [*_grown(outcome), *_leaked(outcome), *_harm(outcome)]


def _grown(outcome: Outcome) -> list[str]:
    if outcome.plan.seconds < JUDGED_FROM_SECONDS:
        return []
    return [
        f"memory of the {name} grew by {by:.1%}, from {early:.1f} to {late:.1f} MB"
        for name, (early, late, by) in growth(outcome).items()
        if not by < GROWTH  # what was not measured is no number
    ]


def _leaked(outcome: Outcome) -> list[str]:
    return [*leaks(outcome.first, outcome.last), *(f"orphan: {each}" for each in outcome.orphans)]


def leaks(first: Idle, last: Idle) -> list[str]:
    """Of what was held at rest."""
    before, after = first.to_json(), last.to_json()
    return [
        f"{name.replace('_', ' ')} at rest: {before[name]} first, {now} in the end"
        for name, now in after.items()
        if now > BOUNDS.get(name, before[name])
    ]


def _harm(outcome: Outcome) -> list[str]:
    accounts, tally = outcome.accounts, outcome.tally
    said = [f"{accounts.unended} jobs are open"] if accounts.unended else []
    failed = sum(count for status, count in accounts.answers.items() if status >= 500)
    if failed:
        said.append(f"{failed} answers are 5xx")
    said += [f"logged: {line}" for line in accounts.errors]
    said += [f"trials are not whole: job {each}" for each in accounts.torn]
    said += [f"tuner db check: {each}" for each in accounts.wrong]
    if tally.wrong:
        said += [f"{tally.wrong} answers were wrong; the first:", *tally.said]
    if tally.unanswered > BROKEN_OFF * tally.answers.total():
        said.append(f"{tally.unanswered} requests broke off; the last: {list(tally.broken)}")
    said += [f"{name} did not come to its end" for name in outcome.stuck]
    said += [
        f"{name} ended with {code}"
        for name, code in outcome.exit_codes.items()
        if code not in ENDED_WELL[name]
    ]
    if not accounts.states.get("succeeded"):
        said.append("no job has succeeded")
    return said


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else float("nan")
