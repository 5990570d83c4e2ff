"""The limits of a soak, and a sentence for each one that is exceeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mode

import numpy as np

from tests.soak.idle import Idle
from tests.soak.samples import Sample
from tests.soak.soak import Outcome

GROWTH = 0.05
JUDGED_FROM_SECONDS = 1200.0
"""The growth of memory is not judged in a shorter soak, which ends while caches still fill."""
EARLY, LATE = (1 / 6, 1 / 4), (11 / 12, 1.0)
"""Parts of the soak whose medians are compared: minutes 10 to 15 and the last 5 of an hour."""
BOUNDS = {
    "api_connections": 6,
    "api_database_descriptors": 41,
    "worker_connections": 5,
    "worker_database_descriptors": 40,
}
"""The most descriptors of the database that one process may hold at rest.

SQLAlchemy's pool keeps five connections and opens up to 35 more if so many are wanted at once
(db/sql/engine.py); the service has another one (api/route_helpers/nonblocking.py). A pool may fill
up at any time, so the counts of the first rest are no bounds.
"""
ENDED_WELL = {"api": (0, -15), "worker-a": (0,)}
"""Exit codes that are right. Once uvicorn has stopped, it ends itself by the signal it got."""
BROKEN_OFF = 1e-3
"""Share of all requests that may break off, because any machine has hiccups."""

MEMORY: dict[str, Callable[[Sample], float]] = {
    "API": lambda sample: sample.api.rss_mb,
    "worker": lambda sample: sample.worker.rss_mb,
    "worker's tree": lambda sample: sample.tree_rss_mb,
    "worker's builder": lambda sample: sample.builder_rss_mb,
}


def usual(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples in which the worker has its most frequent number of descendants.

    Each job starts and ends some processes, so one more or less at the moment of a sample is no
    growth.
    """
    most = mode(sample.descendants for sample in samples)
    return [sample for sample in samples if sample.descendants == most]


def growth(outcome: Outcome) -> dict[str, tuple[float, float, float]]:
    """Return, for each memory that is judged, its early and late median, MB, and the growth.

    The growth is relative to the early median. All three may be NaN if there are no samples.
    """
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
    """Return a sentence for each limit that is exceeded."""
    return [*_grown(outcome), *_leaked(outcome), *_harm(outcome)]


def _grown(outcome: Outcome) -> list[str]:
    if outcome.plan.seconds < JUDGED_FROM_SECONDS:
        return []
    return [
        f"memory of the {name} grew by {by:.1%}, from {early:.1f} to {late:.1f} MB"
        for name, (early, late, by) in growth(outcome).items()
        if not by < GROWTH  # NaN means not measured, and fails too
    ]


def _leaked(outcome: Outcome) -> list[str]:
    return [*leaks(outcome.first, outcome.last), *(f"orphan: {each}" for each in outcome.orphans)]


def leaks(first: Idle, last: Idle) -> list[str]:
    """Return a sentence for each count that is higher at the last rest than it may be.

    A count may be as high as at the first rest or, if it is in BOUNDS, as its bound.
    """
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
