"""Samples of a kernel's time: how many are taken, how they are summarised, what they wait for."""

import hashlib
import math
import threading
import time
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.measure import cpu_clock
from tuner.measure.clock import FEWEST, MORE, Sample, summarise, take
from tuner.measure.cpu_clock import MAX_CALLS, CpuClock
from tuner.measure.kernel import Kernel

SAMPLES = st.lists(st.floats(1e-7, 1e-1), min_size=2, max_size=50)


class Scripted:
    """A sampler that returns the given seconds one after the other, then the last one for ever."""

    def __init__(self, *seconds: float, calls: int = 1, log: list[str] | None = None) -> None:
        self.calls, self.taken, self.disturbed = calls, 0, False
        self._seconds, self._log = seconds, log

    def sample(self) -> float:
        if self._log is not None:
            self._log.append(f"{self._seconds[0]:g}")
        self.taken += 1
        return self._seconds[min(self.taken, len(self._seconds)) - 1]


def of(*seconds: float, disturbed: bool = False) -> list[Sample]:
    return [Sample(each, disturbed) for each in seconds]


def test_the_first_sample_is_dropped_and_seconds_become_microseconds() -> None:
    assert summarise(of(9.0, 1e-6, 2e-6, 3e-6), calls=7) == {
        "median_us": pytest.approx(2.0),
        "p10_us": pytest.approx(1.2),
        "p90_us": pytest.approx(2.8),
        "samples": 3,
        "calls_per_sample": 7,
        "disturbed": 0.0,
    }


def test_single_sample_is_not_dropped() -> None:
    assert summarise(of(2e-6), calls=1)["median_us"] == pytest.approx(2.0)


def test_disturbed_samples_are_left_out_if_enough_others_remain() -> None:
    calm, disturbed = of(9.0, *[1e-6] * FEWEST), of(*[5e-6] * 15, disturbed=True)
    found = summarise(calm + disturbed, calls=1)
    assert (found["median_us"], found["samples"]) == (pytest.approx(1.0), FEWEST)
    assert found["disturbed"] == pytest.approx(0.75)
    few = summarise(calm[:-1] + disturbed, calls=1)
    assert few["median_us"] == pytest.approx(5.0)


@given(SAMPLES)
def test_percentiles_are_ordered_and_within_the_samples(samples: list[float]) -> None:
    summary = summarise(of(*samples), calls=1)
    kept = [1e6 * sample for sample in samples[1:]]
    ordered = [min(kept), summary["p10_us"], summary["median_us"], summary["p90_us"], max(kept)]
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(ordered))
    assert summary["samples"] == len(kept)


def test_take_stops_at_the_count() -> None:
    sampler = Scripted(1e-6)
    assert take(sampler, count=10, budget_seconds=60)["samples"] == 10
    assert sampler.taken == 11


def test_take_stops_when_the_budget_is_spent_but_takes_at_least_two_samples() -> None:
    assert take(Scripted(1.0), count=10, budget_seconds=4.5)["samples"] == 4
    assert take(Scripted(100.0), count=10, budget_seconds=0.1)["samples"] == 2


def test_budget_counts_every_call_of_a_sample() -> None:
    sampler = Scripted(0.01, calls=100)
    assert take(sampler, count=50, budget_seconds=4.5)["samples"] == 4


def test_take_takes_more_samples_if_they_are_spread() -> None:
    class Swinging(Scripted):
        def sample(self) -> float:
            return super().sample() * (1 + self.taken % 2)

    assert take(Swinging(1e-6), count=10, budget_seconds=60)["samples"] == MORE * 10
    assert take(Swinging(1.0), count=10, budget_seconds=6)["samples"] < MORE * 10


def test_warm_cpu_time_is_tvms_loop_if_the_kernel_has_one() -> None:
    asked: list[tuple[int, int]] = []

    def evaluator(number: int, repeat: int) -> list[float]:
        asked.append((number, repeat))
        return [3e-6]

    sampler = CpuClock(2**10).warm(Kernel(lambda: None, evaluator), budget_seconds=1)
    assert sampler.sample() == 3e-6
    assert asked == [(sampler.calls, 1)]
    assert 1 <= sampler.calls <= MAX_CALLS


def test_warm_cpu_time_of_a_kernel_without_tvms_loop_is_that_of_calls() -> None:
    calls = []
    sampler = CpuClock(2**10).warm(Kernel(lambda: calls.append(None)), budget_seconds=1)
    before = len(calls)
    assert sampler.sample() > 0
    assert len(calls) - before == sampler.calls


def test_kernel_after_another_one_waits_until_its_threads_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kernel that follows another kernel waits until the other's threads rest. A kernel that
    follows itself does not wait."""
    log: list[str] = []
    monkeypatch.setattr(cpu_clock.time, "sleep", lambda _: log.append("pause"))
    monkeypatch.setattr(cpu_clock, "others_run", lambda: False)
    clock = CpuClock(2**10)
    kernels = {name: Kernel(lambda: None, partial(timed, log, name)) for name in "ab"}
    a, b = (clock.warm(kernel, budget_seconds=1e-6) for kernel in kernels.values())
    assert log == ["pause"] * 2
    for sampler in (b, a, a, b):
        sampler.sample()
    assert log[2:] == ["b", "pause", "a", "a", "pause", "b"]


def test_rest_waits_for_running_threads_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock is a stand-in that advances only by sleeping, so the waits are exact."""
    now, running = 0.0, iter([True, True, False])

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(cpu_clock, "time", SimpleNamespace(sleep=sleep, perf_counter=lambda: now))
    monkeypatch.setattr(cpu_clock, "others_run", lambda: next(running, True))
    cpu_clock.rest()
    assert now == pytest.approx(3 * cpu_clock.REST_SECONDS)
    cpu_clock.rest()
    waited = now - 3 * cpu_clock.REST_SECONDS
    assert waited == pytest.approx(cpu_clock.MOST_REST_SECONDS, abs=2 * cpu_clock.REST_SECONDS)


def test_others_run_sees_a_thread_in_native_code() -> None:
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            # This computes without the interpreter's lock.
            hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 20_000)

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        seen = [cpu_clock.others_run() for _ in range(200)]
        assert sum(seen) > 100
    finally:
        over.set()
        thread.join()
    # a thread that has been joined may still wait for a core to end on
    assert any(not cpu_clock.others_run() or time.sleep(0.01) for _ in range(1000))


def timed(log: list[str], name: str, number: int, repeat: int) -> list[float]:
    log.append(name)
    return [1e-6]


def test_slow_kernel_is_called_once_per_sample() -> None:
    """One call takes more than 10 ms, the least length of a sample."""
    sampler = CpuClock(2**10).warm(Kernel(lambda: sum(range(5_000_000))), budget_seconds=1)
    assert sampler.calls == 1


def test_cold_cpu_sample_has_one_call() -> None:
    calls = []
    sampler = CpuClock(2**10).cold(Kernel(lambda: calls.append(None)))
    assert math.isfinite(sampler.sample())
    assert (sampler.calls, len(calls)) == (1, 1)
