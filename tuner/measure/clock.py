"""The timing protocol: what a clock measures, and how samples become one time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field, FiniteFloat

PROTOCOLS = {"cpu": 3, "cuda": 5}
"""Versions of the protocol by kind of device, stored with each time. Raise one if a change would
make the times of old and new records incomparable."""
STEADY = 0.25
"""Samples are spread if their 10th and 90th percentiles differ by more than this share of the
median. Then more of them are taken."""
MORE = 4
"""If samples are spread, their number and the time that they may take are multiplied by this."""
FEWEST = 5
"""Disturbed samples are left out if at least this many others remain."""

Summary = dict[str, Annotated[int, Field(le=2**53)] | FiniteFloat]
"""A summary of samples, with the keys that :func:`summarise` returns."""


class Sampler(Protocol):
    """Something that is ready to be timed.

    One sample is the mean of ``calls`` calls. ``disturbed`` says whether the system took a
    processor away from this process during the last sample.
    """

    calls: int
    disturbed: bool

    def sample(self) -> float:
        """Take one sample. Return the seconds of one call."""
        ...


class Clock(Protocol):
    """The ways in which a device's times are taken.

    ``warm`` times calls back to back, with their inputs in the cache and the cost of a launch
    amortised; the calls of a sample take up to ``budget_seconds``. ``cold`` flushes the caches
    before the calls.
    """

    def warm(self, kernel: Any, budget_seconds: float) -> Sampler: ...

    def cold(self, kernel: Any) -> Sampler: ...


@dataclass(frozen=True)
class Sample:
    """The seconds of one call, and whether the system interrupted the process meanwhile."""

    seconds: float
    disturbed: bool = False


def taken(sampler: Sampler) -> Sample:
    """Take one sample and return it."""
    seconds = sampler.sample()
    return Sample(seconds, sampler.disturbed)


def summarise(samples: Sequence[Sample], calls: int) -> Summary:
    """Return the median and the 10th and 90th percentiles of the samples, in µs, and their counts.

    The first sample is dropped if there are others. Disturbed samples are left out if at least
    :data:`FEWEST` others remain. ``samples`` is how many were counted, ``disturbed`` the share of
    disturbed ones.
    """
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
    """Return the 90th minus the 10th percentile, as a share of the median."""
    return float((summary["p90_us"] - summary["p10_us"]) / summary["median_us"])


def take(sampler: Sampler, count: int, budget_seconds: float) -> Summary:
    """Return the summary of up to ``count`` samples, after a first one that is dropped.

    Sampling stops earlier if the samples have taken ``budget_seconds``, but not before there are
    two. If the samples are spread, up to four times as many are taken in up to four times as long.
    """
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
