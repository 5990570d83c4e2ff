"""The timing protocol: what a time is, and how samples become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field, FiniteFloat

PROTOCOL = 2
"""Raise it when a change would make times of old and new records incomparable."""

Summary = dict[str, Annotated[int, Field(le=2**53)] | FiniteFloat]
"""Of samples: :func:`summarise` has its names."""


class Sampler(Protocol):
    """Something that is ready to be timed. One sample is the mean of ``calls`` calls."""

    calls: int

    def sample(self) -> float:
        """Seconds for one call."""
        ...


class Clock(Protocol):
    """A device's way to time. ``warm``: calls back to back with inputs in the cache, the cost
    of launching amortised; ``cold``: caches flushed before each call."""

    def warm(self, kernel: Any, budget_seconds: float) -> Sampler: ...

    def cold(self, kernel: Any) -> Sampler: ...


def summarise(samples: Sequence[float], calls: int) -> Summary:
    """Median, 10th and 90th percentile in µs; the first sample is dropped."""
    kept = np.asarray(samples[1:] if len(samples) > 1 else samples) * 1e6
    p10, median, p90 = (float(v) for v in np.percentile(kept, (10, 50, 90)))
    return {
        "median_us": median,
        "p10_us": p10,
        "p90_us": p90,
        "samples": len(kept),
        "calls_per_sample": calls,
    }


def take(sampler: Sampler, count: int, budget_seconds: float) -> Summary:
    """The summary of up to ``count`` samples, after one that is dropped; fewer, but at least
    two, where the budget is spent earlier."""
    samples: list[float] = []
    while len(samples) < 3 or (
        len(samples) <= count and sum(samples) * sampler.calls < budget_seconds
    ):
        samples.append(sampler.sample())
    return summarise(samples, sampler.calls)


def interleaved(
    samplers: dict[str, Sampler], rounds: int, fewer: Mapping[str, int] | None = None
) -> dict[str, Summary]:
    """Summaries of samplers that take turns, so that a drift of the clock rates meets all.

    Those named in ``fewer`` take part in so many of the rounds, spread evenly.
    """
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for turn in range(rounds + 1):
        for name, sampler in samplers.items():
            wanted = (fewer or {}).get(name, rounds)
            if turn == 0 or turn * wanted // rounds > (turn - 1) * wanted // rounds:
                samples[name].append(sampler.sample())
    return {name: summarise(samples[name], samplers[name].calls) for name in samplers}
