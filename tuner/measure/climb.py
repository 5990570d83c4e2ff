"""A ladder's rungs checked and timed: all that is compared takes turns in one fresh process. Runs
in the runner's child."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import templates
from tuner.measure.check import WrongAnswer, check, relative_error
from tuner.measure.clock import Sampler, Summary, summarise
from tuner.measure.compile import EMPTY_WORKLOAD
from tuner.measure.finals import EMPTY, Entry, Finals
from tuner.measure.kernel import Kernel, Loaded, Tensors
from tuner.measure.trial import RunOrder, clock_for, read_cases
from tuner.peers import peers

SLOW_SECONDS = 2.0
"""What takes longer for one call is timed once."""
SAMPLES = 20
SAMPLE_SECONDS = 20e-3
SAMPLING_SECONDS = 0.5
"""For all samples of one contestant; the slower, the fewer."""


@dataclass(frozen=True)
class _Timed:
    sampler: Sampler
    samples: int


def climb(order: RunOrder, libraries: dict[str, Path], with_peers: bool = True) -> Finals:
    """Check and time the libraries by name, ``empty`` among them, and the peers at hand.

    What is wrong or fails is dropped with its reason.
    """
    workload = templates.parse_key(order.workload_key)
    cases = read_cases(order.cases)
    tensors = Tensors(workload, order.kind)
    errors: dict[str, float | None] = {EMPTY: None}
    dropped: dict[str, str] = {}
    kernels: dict[str, Kernel] = {}
    slow: set[str] = set()
    for name, path in libraries.items():
        if name == EMPTY:
            kernels[name] = Loaded(path, Tensors(EMPTY_WORKLOAD, order.kind)).kernel()
            continue
        loaded = Loaded(path, tensors)
        try:
            errors[name] = check(loaded.error, cases, workload.max_error)
        except WrongAnswer as wrong:
            dropped[name] = str(wrong)
            continue
        start = time.perf_counter()
        loaded.run(cases[0])
        if time.perf_counter() - start > SLOW_SECONDS:
            slow.add(name)
        kernels[name] = loaded.kernel()
    for peer in peers(workload, order.kind) if with_peers else ():
        try:
            kernels[peer.name] = peer.prepare(cases[0].x, cases[0].w)
            errors[peer.name] = relative_error(peer.output(), cases[0].reference)
        except Exception as error:
            kernels.pop(peer.name, None)
            dropped[peer.name] = f"{type(error).__name__}: {error}"[:500]
    tensors.fill(cases[0])
    on_device: dict[str, _Timed] = {}
    on_host: dict[str, _Timed] = {}  # apart: the GPU would idle meanwhile
    for name, kernel in kernels.items():
        hosted = order.kind == "cuda" and kernel.graphed is None and kernel.rotated is None
        kind = "cpu" if hosted else order.kind
        clock = clock_for(kind, order.cache_bytes, workload.bytes)
        try:
            timed = (
                _Timed(_Once(kernel, tensors), 1)
                if name in slow
                else _prepared(clock.warm(kernel, SAMPLE_SECONDS))
            )
        except Exception as error:
            if name in libraries:
                raise
            dropped[name] = f"{type(error).__name__}: {error}"[:500]
            continue
        (on_host if hosted else on_device)[name] = timed
    warm = _take_turns(on_device)
    clocks = {}
    if order.kind == "cuda":
        from tuner.cuda_facts import clocks as clocks_now

        clocks = clocks_now()
    warm |= _take_turns(on_host)
    entries = {name: Entry(name, {"warm": warm[name]}, errors[name]) for name in warm}
    return Finals(entries, dropped, clocks)


class _Once:
    """One call by the host's clock: for what takes seconds."""

    calls = 1

    def __init__(self, kernel: Kernel, tensors: Tensors) -> None:
        self._kernel, self._tensors = kernel, tensors

    def sample(self) -> float:
        start = time.perf_counter()
        self._kernel.call()
        self._tensors.device.sync()
        return time.perf_counter() - start


def _prepared(sampler: Sampler) -> _Timed:
    seconds = sampler.sample() * sampler.calls
    return _Timed(sampler, max(2, min(SAMPLES + 1, int(SAMPLING_SECONDS / max(seconds, 1e-9)))))


def _take_turns(contestants: dict[str, _Timed]) -> dict[str, Summary]:
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(max((timed.samples for timed in contestants.values()), default=0)):
        for name, timed in contestants.items():
            if turn < timed.samples:
                samples[name].append(timed.sampler.sample())
    return {
        name: summarise(samples[name], timed.sampler.calls) for name, timed in contestants.items()
    }
