"""The timing protocol: what a time is, and how samples become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field, FiniteFloat

PROTOCOL = 3
"""Raise it when a change would make times of old and new records incomparable."""
STEADY = 0.25
"""Samples are spread if their 10th and 90th percentile differ by more than this share of the
median. Then more of them are taken."""
MORE = 4
"""Spread samples may be so many times as many, and take so many times as long."""
FEWEST = 5
"""Disturbed samples are left out if at least so many others remain."""

Summary = dict[str, Annotated[int, Field(le=2**53)] | FiniteFloat]
"""A summary of samples, with the names of :func:`summarise`."""


class Sampler(Protocol):
    """Something that is ready to be timed. One sample is the mean of ``calls`` calls.

    ``disturbed`` says whether the system took a processor away from the process during the last
    sample.
    """

    calls: int
    disturbed: bool

    def sample(self) -> float:
        """Seconds for one call."""
        ...


class Clock(Protocol):
    """A device's way to time. ``warm``: calls back to back with inputs in the cache, the cost
    of launching amortised; ``cold``: caches flushed before each call."""

    def warm(self, kernel: Any, budget_seconds: float) -> Sampler: ...

    def cold(self, kernel: Any) -> Sampler: ...


@dataclass(frozen=True)
class Sample:
    """Seconds for one call, and whether the process was interrupted meanwhile."""

    seconds: float
    disturbed: bool = False


def taken(sampler: Sampler) -> Sample:
    """The next sample."""
    seconds = sampler.sample()
    return Sample(seconds, sampler.disturbed)


def summarise(samples: Sequence[Sample], calls: int) -> Summary:
    """Median, 10th and 90th percentile in µs. The first sample is dropped. Disturbed samples are
    left out if enough others remain; ``disturbed`` is their share."""
    kept = samples[1:] if len(samples) > 1 else samples
    calm = [sample for sample in kept if not sample.disturbed]
    counted = np.asarray([s.seconds for s in (calm if len(calm) >= FEWEST else kept)]) * 1e6
    p10, median, p90 = (float(v) for v in np.percentile(counted, (10, 50, 90)))
    return {
        "median_us": median,
        "p10_us": p10,
        "p90_us": p90,
        "samples": len(counted),
        "calls_per_sample": calls,
        "disturbed": 1 - len(calm) / len(kept),
    }


def spread(summary: Mapping[str, Any]) -> float:
    """The 90th minus the 10th percentile, as a share of the median."""
    return float((summary["p90_us"] - summary["p10_us"]) / summary["median_us"])


def take(sampler: Sampler, count: int, budget_seconds: float) -> Summary:
    """The summary of up to ``count`` samples, after one that is dropped. There are fewer, but at
    least two, if the budget is spent earlier. If samples are spread, up to four times as many are
    taken in up to four times the time."""
    samples: list[Sample] = []
    spent = 0.0
    while True:
        samples.append(taken(sampler))
        spent += samples[-1].seconds * sampler.calls
        if len(samples) < 3 or (len(samples) <= count and spent < budget_seconds):
            continue
        summary = summarise(samples, sampler.calls)
        if spread(summary) <= STEADY or len(samples) > MORE * count:
            return summary
        if spent >= MORE * budget_seconds:
            return summary
