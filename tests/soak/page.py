"""The result of a soak as figures for JSON and as a page in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tests.soak.judge import GROWTH, growth, missed, usual
from tests.soak.samples import Sample
from tests.soak.soak import Outcome
from tuner.device import cpu_facts

MEASURED = ("api", "worker", "tree", "builder")
WINDOWS = 12
"""Number of the table's rows; each is five minutes of an hour."""
COLUMNS: dict[str, Callable[[Sample], float]] = {
    "api_rss_mb": lambda s: s.api.rss_mb,
    "api_uss_mb": lambda s: s.api.uss_mb,
    "api_threads": lambda s: s.api.threads,
    "api_descriptors": lambda s: s.api.all_descriptors,
    "worker_rss_mb": lambda s: s.worker.rss_mb,
    "worker_uss_mb": lambda s: s.worker.uss_mb,
    "worker_threads": lambda s: s.worker.threads,
    "worker_descriptors": lambda s: s.worker.all_descriptors,
    "tree_rss_mb": lambda s: s.tree_rss_mb,
    "tree_pss_mb": lambda s: s.tree_pss_mb,
    "builder_rss_mb": lambda s: s.builder_rss_mb,
    "descendants": lambda s: s.descendants,
    "database_mb": lambda s: s.database_mb,
    "wal_mb": lambda s: s.wal_mb,
}
ABOUT = """
`tuner serve` and worker A live through the whole soak; worker B is killed with SIGKILL at moments
drawn with the seed and started again. Meanwhile small jobs of both operators are ordered, ordered
again with their Idempotency-Key and cancelled; events are listened to, by some to the end and by
others with breaks; bests, artifacts, records, metrics and pages are read; wrong requests are sent;
and the Python client orders and waits. Medians of each window; of memory, of the samples with the
usual number of the worker's descendants. RSS and, of a tree, its sum: pages that processes share
count for each.
""".strip()


def figures(outcome: Outcome, command: str) -> dict[str, Any]:
    """Return all of the page's numbers, ready for JSON."""
    device = cpu_facts.device()
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "seed": outcome.plan.seed,
        "seconds": outcome.plan.seconds,
        "windows": _windows(outcome),
        "growth": {
            name: {"early_mb": early, "late_mb": late, "part": by}
            for name, (early, late, by) in growth(outcome).items()
        },
        "at_rest": {"first": outcome.first.to_json(), "last": outcome.last.to_json()},
        "accounts": asdict(outcome.accounts),
        "done": dict(sorted(outcome.tally.done.items())),
        "wrong_answers": outcome.tally.wrong,
        "broken_off": outcome.tally.unanswered,
        "kills": outcome.kills,
        "orphans": outcome.orphans,
        "exit_codes": outcome.exit_codes,
        "missed": missed(outcome),
    }


def _windows(outcome: Outcome) -> list[dict[str, float]]:
    length = outcome.plan.seconds / WINDOWS
    ordinary, found = usual(outcome.samples), []
    for number in range(WINDOWS):
        begin, end = number * length, (number + 1) * length
        inside = [sample for sample in ordinary if begin <= sample.at < end]
        if inside:
            medians = {
                name: float(np.median([of(s) for s in inside])) for name, of in COLUMNS.items()
            }
            found.append({"from_minute": begin / 60, "to_minute": end / 60} | medians)
    return found


def markdown(made: dict[str, Any]) -> str:
    """Return the page in Markdown, made of :func:`figures`."""
    lines = ["# Soak", "", f"{made['device']}, {made['date']}.", "", f"    {made['command']}", ""]
    lines += [ABOUT, ""]
    lines += _table(
        ["minutes", "API, MB", "worker, MB", "its tree, MB", "its builder, MB", "API descriptors",
         "worker's", "API threads", "worker's", "database, MB", "WAL, MB"],
        [
            [
                f"{window['from_minute']:.3g} to {window['to_minute']:.3g}",
                *(f"{window[f'{name}_rss_mb']:.1f}" for name in MEASURED),
                *(f"{window[f'{name}_descriptors']:.0f}" for name in ("api", "worker")),
                *(f"{window[f'{name}_threads']:.0f}" for name in ("api", "worker")),
                f"{window['database_mb']:.1f}",
                f"{window['wal_mb']:.1f}",
            ]
            for window in made["windows"]
        ],
    )  # fmt: skip
    lines += ["", f"Growth, which must stay below {GROWTH:.0%} in a soak of an hour: the median of "
              "minutes 10 to 15 of 60, and that of the last 5.", ""]  # fmt: skip
    lines += _table(
        ["memory of", "early, MB", "late, MB", "growth"],
        [
            [name, f"{each['early_mb']:.1f}", f"{each['late_mb']:.1f}", _percent(each["part"])]
            for name, each in made["growth"].items()
        ],
    )
    lines += ["", "At rest, after the first minutes and in the end:", ""]
    first, last = made["at_rest"]["first"], made["at_rest"]["last"]
    lines += _table(
        ["held", "first", "last"],
        [[name.replace("_", " "), str(first[name]), str(last[name])] for name in first],
    )
    accounts = made["accounts"]
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(accounts["states"].items()))
    answers = ", ".join(f"{count:,} × {status}" for status, count in accounts["answers"].items())
    done = ", ".join(f"{what} {count:,}" for what, count in made["done"].items())
    lines += [
        "",
        f"Jobs: {states}; {accounts['trials']:,} trials; {len(accounts['torn'])} jobs whose trials "
        f"are not whole. Kills: {made['kills']}. Orphans: {len(made['orphans'])}.",
        "",
        f"Answers by status, from the service's log: {answers}. Not as expected: "
        f"{made['wrong_answers']}; broken off: {made['broken_off']}.",
        "",
        f"Done: {done}.",
        "",
        "Bars missed: none." if not made["missed"] else "Bars missed:",
        *(f"\n- {each}" for each in made["missed"]),
    ]
    return "\n".join([*lines, ""])


def _percent(part: float) -> str:
    return "not measured" if math.isnan(part) else f"{part:+.1%}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
