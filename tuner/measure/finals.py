"""The finalists' round: all that is compared takes turns in one fresh process."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import templates
from templates.workload import Workload
from tuner.measure.cases import Case
from tuner.measure.check import WrongAnswer, check, relative_error
from tuner.measure.clock import Sampler, Summary, interleaved, summarise
from tuner.measure.compile import EMPTY_WORKLOAD
from tuner.measure.kernel import Kernel, Loaded, Tensors
from tuner.measure.trial import RunOrder, clock_for, read_cases
from tuner.peers import peers
from tuner.peers.peer import Peer

ROUNDS = 20
COLD_SAMPLES = 10
SAMPLE_SECONDS = 20e-3
ROUND_BUDGET_SECONDS = 3.0
PEER_BUDGET_SECONDS = 0.5
LEAST_ROUNDS = 3
EMPTY = "empty"
ROUND_SECONDS = 900.0
"""What all of a round may take."""


@dataclass(frozen=True)
class Entry:
    """What was measured of one contestant: ``timing`` holds ``warm`` and, for a library,
    ``cold`` summaries."""

    name: str
    timing: dict[str, Summary]
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

    A library that is wrong or faulty is dropped; so is a peer that fails. A peer that is wrong is
    timed all the same: its error stands beside its time.
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
            errors[name] = check(loaded.error, cases, workload.max_error)
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
                dropped[peer.name] = _reason(error)
    tensors.fill(cases[0])
    warm, clocks, unmeasured = _warm(order, workload, compared, libraries)
    dropped |= unmeasured
    cold = _cold(order, workload, kernels)
    entries = {
        name: Entry(
            name,
            {"warm": warm[name]} | ({"cold": cold[name]} if name in cold else {}),
            errors[name],
        )
        for name in warm
    }
    return Finals(entries, dropped, clocks)


def verify(order: RunOrder) -> float:
    """The largest error of a library as it lies on disk. Raises WrongAnswer."""
    workload = templates.parse_key(order.workload_key)
    tensors = Tensors(workload, order.kind)
    return check(Loaded(order.library, tensors).error, read_cases(order.cases), workload.max_error)


def _prepared(peer: Peer, case: Case) -> tuple[Kernel, float]:
    kernel = peer.prepare(case.x, case.w)
    return kernel, relative_error(peer.output(), case.reference)


def _warm(
    order: RunOrder, workload: Workload, compared: dict[str, Kernel], libraries: Container[str]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any], dict[str, str]]:
    """Warm summaries by name, the GPU's clocks right after, and the peers that can't be timed.

    What runs on the host beside a GPU has rounds of its own: the GPU would idle meanwhile.
    """
    device_clock = clock_for(order.kind, order.cache_bytes, workload.bytes)
    host_clock = clock_for("cpu", order.cache_bytes, workload.bytes)
    on_device: dict[str, Sampler] = {}
    on_host: dict[str, Sampler] = {}
    unmeasured: dict[str, str] = {}
    for name, kernel in compared.items():
        hosted = order.kind == "cuda" and kernel.graphed is None and kernel.rotated is None
        try:
            if hosted:
                on_host[name] = host_clock.warm(kernel, SAMPLE_SECONDS)
            else:
                on_device[name] = device_clock.warm(kernel, SAMPLE_SECONDS)
        except Exception as error:
            if name in libraries:
                raise
            unmeasured[name] = _reason(error)
    warm = _rounds(on_device, libraries)
    facts: dict[str, Any] = {}
    if order.kind == "cuda":
        from tuner.cuda_facts import clocks

        facts = clocks()
    return warm | _rounds(on_host, libraries), facts, unmeasured


def _rounds(samplers: dict[str, Sampler], libraries: Container[str]) -> dict[str, dict[str, Any]]:
    """The libraries share a budget of seconds for their rounds; a slow peer sits some out."""
    once = {
        name: min(sampler.sample(), sampler.sample()) * sampler.calls
        for name, sampler in samplers.items()
    }
    shared = sum(seconds for name, seconds in once.items() if name in libraries)
    rounds = _clamped(ROUND_BUDGET_SECONDS / shared if shared else ROUNDS, ROUNDS)
    fewer = {
        name: _clamped(PEER_BUDGET_SECONDS / seconds, rounds)
        for name, seconds in once.items()
        if name not in libraries
    }
    return interleaved(samplers, rounds, fewer)


def _clamped(rounds: float, most: int) -> int:
    return max(LEAST_ROUNDS, min(most, int(rounds)))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


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
