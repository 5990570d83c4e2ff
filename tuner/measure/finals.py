"""The finalists' round: all that is compared takes turns in one fresh process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import templates
from templates.workload import Workload
from tuner.measure.cases import Case
from tuner.measure.check import WrongAnswer, check, relative_error
from tuner.measure.clock import interleaved, summarise
from tuner.measure.compile import EMPTY_WORKLOAD
from tuner.measure.kernel import Kernel, Loaded, Tensors
from tuner.measure.trial import RunOrder, clock_for, read_cases
from tuner.peers import peers
from tuner.peers.peer import Peer

ROUNDS = 20
COLD_SAMPLES = 10
SAMPLE_SECONDS = 20e-3
ROUND_BUDGET_SECONDS = 3.0
EMPTY = "empty"


@dataclass(frozen=True)
class Entry:
    """What was measured of one contestant: ``timing`` holds ``warm`` and, for a library,
    ``cold`` summaries."""

    name: str
    timing: dict[str, Any]
    max_error: float | None


@dataclass(frozen=True)
class Finals:
    """The table of a round; ``dropped`` are those that failed, with the reason."""

    entries: dict[str, Entry]
    dropped: dict[str, str]
    clocks: dict[str, Any]

    @property
    def empty_us(self) -> float:
        """The cost of a launch, µs."""
        return float(self.entries[EMPTY].timing["warm"]["median_us"])


def run_finals(order: RunOrder, libraries: dict[str, Path], with_peers: bool = True) -> Finals:
    """Check and time the libraries by name, ``empty`` among them, and the peers at hand.

    A library that is wrong or faulty is dropped; so is a peer that fails.
    """
    workload = templates.parse_key(order.workload_key)
    cases = read_cases(order.cases)
    tensors = Tensors(workload, order.kind)
    errors: dict[str, float | None] = {}
    dropped: dict[str, str] = {}
    kernels: dict[str, Kernel] = {}
    for name, path in libraries.items():
        if name == EMPTY:
            errors[name] = None
            kernels[name] = Loaded(path, Tensors(EMPTY_WORKLOAD, order.kind)).kernel()
            continue
        loaded = Loaded(path, tensors)
        try:
            errors[name] = check(loaded.run, cases, workload.max_error)
        except WrongAnswer as wrong:
            dropped[name] = str(wrong)
            continue
        kernels[name] = loaded.kernel()
    compared = dict(kernels)
    if with_peers:
        for peer in peers(workload, order.kind):
            try:
                compared[peer.name], errors[peer.name] = _prepared(peer, cases[0])
            except Exception as error:
                dropped[peer.name] = f"{type(error).__name__}: {error}"[:500]
    tensors.fill(cases[0])
    warm, clocks = _warm(order, workload, compared)
    cold = _cold(order, workload, kernels)
    entries = {
        name: Entry(
            name,
            {"warm": warm[name]} | ({"cold": cold[name]} if name in cold else {}),
            errors[name],
        )
        for name in compared
    }
    return Finals(entries, dropped, clocks)


def verify(order: RunOrder) -> float:
    """The largest error of a library as it lies on disk. Raises WrongAnswer."""
    workload = templates.parse_key(order.workload_key)
    tensors = Tensors(workload, order.kind)
    return check(Loaded(order.library, tensors).run, read_cases(order.cases), workload.max_error)


def _prepared(peer: Peer, case: Case) -> tuple[Kernel, float]:
    kernel = peer.prepare(case.x, case.w)
    return kernel, relative_error(peer.output(), case.reference)


def _warm(
    order: RunOrder, workload: Workload, compared: dict[str, Kernel]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Warm summaries by name, and the GPU's clocks right after."""
    device_clock = clock_for(order.kind, order.cache_bytes, workload.bytes)
    host_clock = clock_for("cpu", order.cache_bytes, workload.bytes)
    samplers = {
        name: (
            host_clock
            if order.kind == "cuda" and kernel.graphed is None and kernel.rotated is None
            else device_clock
        ).warm(kernel, SAMPLE_SECONDS)
        for name, kernel in compared.items()
    }
    once = sum(sampler.sample() * sampler.calls for sampler in samplers.values())
    rounds = max(3, min(ROUNDS, int(ROUND_BUDGET_SECONDS / once)))
    warm = interleaved(samplers, rounds)
    if order.kind != "cuda":
        return warm, {}
    from tuner.cuda_facts import clocks

    return warm, clocks()


def _cold(
    order: RunOrder, workload: Workload, kernels: dict[str, Kernel]
) -> dict[str, dict[str, Any]]:
    device_clock = clock_for(order.kind, order.cache_bytes, workload.bytes)
    cold = {}
    for name, kernel in kernels.items():
        sampler = device_clock.cold(kernel)
        samples = [sampler.sample() for _ in range(COLD_SAMPLES + 1)]
        cold[name] = summarise(samples, sampler.calls)
    return cold
