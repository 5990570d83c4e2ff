"""One process of a comparison round: what is ready to be timed in it, and its samples.

This runs in a child process. What is entered stays until the process ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import templates
from templates.dtypes import in_numpy
from templates.workload import Workload
from tuner.build.compile import EMPTY_WORKLOAD
from tuner.library.load import Library
from tuner.library.manifest import Manifest
from tuner.measure.cases import Array, Case
from tuner.measure.check import WrongAnswer, check, relative_error
from tuner.measure.clock import Sample, Sampler, Summary, summarise, taken
from tuner.measure.cpu_clock import rest
from tuner.measure.kernel import Kernel, Loaded, Tensors
from tuner.measure.trial import RunOrder, clock_for, read_cases
from tuner.peers import peers
from tuner.peers.peer import Peer
from tuner.peers.torch_arrays import to_tensor
from tuner.process.deadline import deadline

EMPTY = "empty"
KERNEL, CALL = "kernel", "call"
"""What a time is of: the kernel, or the call from Python that reaches it."""
SLOW_SECONDS = 2.0
"""A subject whose call takes longer is timed once."""
PREPARE_SECONDS = 60.0
"""A peer that is not ready to be timed after that is dropped. The first that PyTorch compiles on a
machine takes up to half of it."""
SAMPLE_SECONDS, ROUGH_SAMPLE_SECONDS = 20e-3, 1e-3
"""Of calls in a sample, and in one of a rough round."""


@dataclass(frozen=True)
class Subject:
    """Something that is ready to be timed. One sample takes about ``seconds``. At most ``most``
    samples are wanted, or one each turn if that is None. ``is_peer`` is false of what is ours."""

    seconds: float
    calls: int
    level: str
    max_error: float | None
    most: int | None = None
    is_peer: bool = False


@dataclass(frozen=True)
class Entered:
    """What is ready, by name, and what was dropped, with the reason."""

    subjects: dict[str, Subject]
    dropped: dict[str, str]


_samplers: dict[str, Sampler] = {}
_kernels: dict[str, Kernel] = {}
_compiled: dict[tuple[str, str], list[Peer]] = {}
"""By workload and group."""


def enter_libraries(order: RunOrder, libraries: dict[str, Path]) -> Entered:
    """Check and enter libraries by name, ``empty`` among them. A wrong one is dropped. One that
    crashes raises, or ends the process."""
    workload = templates.parse_key(order.workload_key)
    cases, tensors = read_cases(order.workload_key, order.cases), Tensors(workload, order.kind)
    subjects: dict[str, Subject] = {}
    dropped: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    slow: set[str] = set()
    for name, path in libraries.items():
        if name == EMPTY:
            errors[name] = None
            _kernels[name] = Loaded(path, Tensors(EMPTY_WORKLOAD, order.kind)).kernel()
            continue
        loaded = Loaded(path, tensors)
        try:
            errors[name] = check(loaded.errors, cases, workload.max_error)
        except WrongAnswer as wrong:
            dropped[name] = str(wrong)
            continue
        start = time.perf_counter()
        loaded.run(cases[0])
        if time.perf_counter() - start > SLOW_SECONDS:
            slow.add(name)
        _kernels[name] = loaded.kernel()
    tensors.fill(cases[0])
    for name, error in errors.items():
        kernel = _kernels[name]
        sampler = _Once(kernel, tensors) if name in slow else _warm(order, workload, kernel)
        subjects[name] = _ready(name, sampler, KERNEL, error, 1 if name in slow else None)
    return Entered(subjects, dropped)


def compile_peers(workload_key: str, cases: Path, kind: str, group: str) -> None:
    """What entering a group of peers can begin with while other processes time something on the
    device: libraries are imported, and compile. One that fails is left to :func:`enter_peers`."""
    workload = templates.parse_key(workload_key)
    case = read_cases(workload_key, cases)[0]
    found = []
    for peer in peers(workload, kind, group):
        with suppress(Exception):
            peer.compile(*case.given)
            found.append(peer)
    _compiled[workload_key, group] = found


def enter_peers(order: RunOrder, group: str) -> Entered:
    """Enter a group of peers. One that fails, or takes too long to be ready, is dropped. One that
    is wrong is timed all the same, and its error is reported with its time."""
    workload = templates.parse_key(order.workload_key)
    case = read_cases(order.workload_key, order.cases)[0]
    compiled = {peer.name: peer for peer in _compiled.pop((order.workload_key, group), [])}
    subjects: dict[str, Subject] = {}
    dropped: dict[str, str] = {}
    for listed in peers(workload, order.kind, group):
        peer = compiled.get(listed.name, listed)
        try:
            kernel, error = _prepared(peer, case, compiled=peer is not listed)
            captured = order.kind == "cuda" and kernel.graphed is not None
            kind = order.kind if captured else "cpu"
            sampler = _warm(order, workload, kernel, kind)
            level = KERNEL if captured else CALL
            subject = _ready(peer.name, sampler, level, error)
            subjects[peer.name] = replace(subject, is_peer=True)
        except Exception as failed:
            dropped[peer.name] = reason(failed)
    return Entered(subjects, dropped)


def enter_delivered(order: RunOrder, manifest: dict[str, Any], name: str) -> Entered:
    """The library as its user has it: loaded from disk by :class:`tuner.library.load.Library`, and
    called on arrays. It is checked once more. Its subjects are its kernel, on a CPU, and its
    call, if the device's arrays can be had here; :func:`of` gives their names. Raises
    WrongAnswer."""
    named_kernel, named_call = of(name, KERNEL), of(name, CALL)
    workload = templates.parse_key(order.workload_key)
    cases = read_cases(order.workload_key, order.cases)
    library = Library(order.library, Manifest.described(manifest, signer=""))
    tensors = Tensors(workload, order.kind)
    loaded = Loaded(order.library, tensors)
    error = check(loaded.errors, cases, workload.max_error)
    subjects: dict[str, Subject] = {}
    tensors.fill(cases[0])
    if order.kind == "cpu":
        _kernels[named_kernel] = loaded.kernel()
        subjects[named_kernel] = _ready(
            named_kernel, _warm(order, workload, _kernels[named_kernel]), KERNEL, error
        )
    call, wait = _called(library, cases[0].given, order.kind)
    if call is not None:
        kernel = Kernel(call=call)
        sampler: Sampler = (
            _warm(order, workload, kernel, "cpu") if wait is None else (_Queued(kernel, wait))
        )
        subjects[named_call] = _ready(named_call, sampler, CALL, error)
    return Entered(subjects, {} if subjects else {named_call: "PyTorch is not installed"})


def of(name: str, level: str) -> str:
    """The name under which a delivered library's kernel or call takes part."""
    return f"{name}'s {level}"


def sample(names: Sequence[str]) -> list[Sample]:
    """A sample of each, one after the other. Then wait until no thread of this process spins,
    because other processes are timed next."""
    samples = [taken(_samplers[name]) for name in names]
    rest()
    return samples


def cold(order: RunOrder, names: Sequence[str], count: int) -> dict[str, Summary]:
    """Cold summaries of libraries."""
    clock = clock_for(order.kind, order.cache_bytes, templates.parse_key(order.workload_key).bytes)
    found = {}
    for name in names:
        sampler = clock.cold(_kernels[name])
        samples = [taken(sampler) for _ in range(count + 1)]
        found[name] = summarise(samples, sampler.calls)
    return found


def reason(error: Exception) -> str:
    """Why something failed, in a line or two."""
    return f"{type(error).__name__}: {error}"[:500]


class _Once:
    """One call by the host's clock, for subjects that take seconds."""

    calls, disturbed = 1, False

    def __init__(self, kernel: Kernel, tensors: Tensors) -> None:
        self._kernel, self._tensors = kernel, tensors

    def sample(self) -> float:
        start = time.perf_counter()
        self._kernel.call()
        self._tensors.device.sync()
        return time.perf_counter() - start


class _Queued:
    """Many calls that return before the device is done, and one wait for all of them."""

    calls, disturbed = 1000, False

    def __init__(self, kernel: Kernel, wait: Callable[[], None]) -> None:
        self._kernel, self._wait = kernel, wait

    def sample(self) -> float:
        self._kernel.call()
        self._wait()
        start = time.perf_counter()
        for _ in range(self.calls):
            self._kernel.call()
        self._wait()
        return (time.perf_counter() - start) / self.calls


def _called(
    library: Library, given: Sequence[Array], kind: str
) -> tuple[Callable[[], Any] | None, Callable[[], None] | None]:
    """The call of the library, its outputs given, on arrays of the device and, on a GPU, what waits
    for it. (None, None) on a GPU without PyTorch."""
    outputs = [
        np.empty(output.shape, in_numpy(output.dtype)) for output in library.workload.outputs
    ]
    arrays: list[Any] = [*map(np.array, given), *outputs]
    if kind == "cpu":
        return _with_outputs(library, arrays), None
    try:
        import torch
    except ImportError:
        return None, None
    if not torch.cuda.is_available():
        return None, None
    placed = [to_tensor(array, kind) for array in arrays]
    return _with_outputs(library, placed), torch.cuda.synchronize


def _with_outputs(library: Library, arrays: Sequence[Any]) -> Callable[[], Any]:
    known = len(library.workload.given)
    given, outputs = arrays[:known], tuple(arrays[known:])
    return partial(library, *given, out=outputs if len(outputs) > 1 else outputs[0])


def _prepared(peer: Peer, case: Case, *, compiled: bool) -> tuple[Kernel, float]:
    with deadline(PREPARE_SECONDS):
        kernel = peer.ready() if compiled else peer.prepare(*case.given)
        errors = [
            relative_error(y, case.references[name], case.scales[name])
            for name, y in zip(case.references, peer.outputs(), strict=True)
        ]
        return kernel, float(np.max(errors))


def _warm(order: RunOrder, workload: Workload, kernel: Kernel, kind: str | None = None) -> Sampler:
    clock = clock_for(kind or order.kind, order.cache_bytes, workload.bytes)
    return clock.warm(kernel, ROUGH_SAMPLE_SECONDS if order.rough else SAMPLE_SECONDS)


def _ready(
    name: str, sampler: Sampler, level: str, error: float | None, most: int | None = None
) -> Subject:
    _samplers[name] = sampler
    once = sampler.sample()
    seconds = (min(once, sampler.sample()) if most is None else once) * sampler.calls
    return Subject(seconds, sampler.calls, level, error, most)
