"""Checking and timing one candidate, in the runner's child process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

import templates
from tuner.measure import cases
from tuner.measure.check import WrongAnswer, check
from tuner.measure.clock import Clock, Summary, take
from tuner.measure.kernel import Loaded, Tensors

SAMPLES, ROUGH_SAMPLES = 10, 2
"""Samples of a trial, and of a rough trial."""
SAMPLE_BUDGET_SECONDS = 5e-3
"""Limit for the calls of one sample."""
TRIAL_BUDGET_SECONDS = 0.3
"""Limit for all samples of a trial; more time is taken if they are spread."""
ERROR_CHARACTERS = 10_000
"""Most characters of an error."""


@dataclass(frozen=True)
class RunOrder:
    """A library to measure.

    It computes the workload and runs on the device of ``kind``, whose last cache has
    ``cache_bytes`` bytes. ``cases`` is the folder of the cases. If the order is ``rough``, few
    samples are taken, because the times decide nothing.
    """

    workload_key: str
    library: Path
    cases: Path
    kind: str
    cache_bytes: int
    rough: bool = False


@dataclass(frozen=True)
class Measured:
    """The result of a trial's check and timing.

    ``status`` is ``ok``, ``wrong_answer``, ``run_error``, ``run_timeout`` or ``machine_error``.
    ``max_error`` is the largest error over the cases. ``timing`` has a summary ``warm``,
    ``seconds`` what ``check`` and ``run`` took. The fields are bounded, because the candidate's
    process sends them and a candidate could forge them. Raises ValueError for an ``ok`` without a
    time.
    """

    status: Literal["ok", "wrong_answer", "run_error", "run_timeout", "machine_error"]
    error: Annotated[str | None, Field(max_length=ERROR_CHARACTERS)] = None
    max_error: FiniteFloat | None = None
    timing: dict[str, Summary] = field(default_factory=dict)
    seconds: dict[str, FiniteFloat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status == "ok" and not self.timing.get("warm", {}).get("median_us", 0) > 0:
            raise ValueError("ok without a time")


def write_cases(workload_key: str, directory: Path, seed: int) -> None:
    """Draw the inputs of a job and write them, with their references, to the directory."""
    cases.write(templates.parse_key(workload_key), directory, seed)


def warm_up(workload_key: str, directory: Path, kind: str, cache_bytes: int) -> None:
    """Put tensors, cases and clock on the device, so that the first candidate need not wait for
    them."""
    tensors = _tensors(workload_key, kind)
    for case in read_cases(workload_key, directory):
        tensors.fill(case)
        tensors.errors(case)
    clock_for(kind, cache_bytes, templates.parse_key(workload_key).bytes)


def measure(order: RunOrder) -> Measured:
    """Check the library and, if it is right, time it warm."""
    workload = templates.parse_key(order.workload_key)
    start = time.perf_counter()
    tensors = _tensors(order.workload_key, order.kind)
    known = read_cases(order.workload_key, order.cases)
    loaded = Loaded(order.library, tensors)
    try:
        error = check(loaded.errors, known, workload.max_error)
    except WrongAnswer as wrong:
        seconds = {"check": time.perf_counter() - start}
        return Measured("wrong_answer", error=str(wrong), seconds=seconds)
    middle = time.perf_counter()
    tensors.fill(known[0])
    clock = clock_for(order.kind, order.cache_bytes, workload.bytes)
    sampler = clock.warm(loaded.kernel(), SAMPLE_BUDGET_SECONDS)
    warm = take(sampler, ROUGH_SAMPLES if order.rough else SAMPLES, TRIAL_BUDGET_SECONDS)
    seconds = {"check": middle - start, "run": time.perf_counter() - middle}
    return Measured("ok", max_error=error, timing={"warm": warm}, seconds=seconds)


@lru_cache(maxsize=1)
def read_cases(workload_key: str, directory: Path) -> list[cases.Case]:
    """Return the cases in the directory. The last answer is cached."""
    return cases.read(templates.parse_key(workload_key), directory)


@lru_cache(maxsize=1)
def _tensors(workload_key: str, kind: str) -> Tensors:
    return Tensors(templates.parse_key(workload_key), kind)


@lru_cache(maxsize=2)
def clock_for(kind: str, cache_bytes: int, set_bytes: int) -> Clock:
    """Return the clock of this process's device.

    ``cache_bytes`` is the size of the device's last cache, ``set_bytes`` that of one set of a
    workload's tensors. Clocks are cached.
    """
    if kind == "cuda":
        from tuner.measure.cuda_clock import CudaClock

        return CudaClock(cache_bytes, set_bytes)
    from tuner.measure.cpu_clock import CpuClock

    return CpuClock(cache_bytes)
