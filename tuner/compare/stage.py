"""The functions of a stage, a child process of a comparison round, which time its subjects.

The class :class:`tuner.compare.comparison.Stage` calls them. Subjects that were prepared stay until
the process ends.
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
from tuner.measure.kernel import Kernel, Loaded, Tensors, device
from tuner.measure.trial import RunOrder, clock_for, read_cases
from tuner.peers import peers
from tuner.peers.peer import Peer
from tuner.peers.torch_arrays import to_tensor
from tuner.process.deadline import call_within

EMPTY = "empty"
"""Name of the empty program in a round."""
KERNEL, CALL = "kernel", "call"
"""The level of a time: that of the kernel, or of the call from Python that reaches it."""
SLOW_SECONDS = 2.0
"""A library whose call takes longer is timed once."""
PREPARE_SECONDS = 60.0
"""A peer that takes longer to be ready is dropped. The first one that PyTorch compiles on a machine
takes up to half of this."""
SAMPLE_SECONDS, ROUGH_SAMPLE_SECONDS = 20e-3, 1e-3
"""Length of a sample, and of one in a rough round."""


@dataclass(frozen=True)
class Subject:
    """Something that is ready to be timed.

    ``seconds`` is about how long one sample of ``calls`` calls takes. ``most`` is how many samples
    are wanted at most; None means one in each turn. ``is_peer`` is false for our own libraries.
    """

    seconds: float
    calls: int
    level: str
    max_error: float | None
    most: int | None = None
    is_peer: bool = False


@dataclass(frozen=True)
class Prepared:
    """The subjects that are ready, by name, and the reasons for which others were dropped."""

    subjects: dict[str, Subject]
    dropped: dict[str, str]


@dataclass(frozen=True)
class _Checked:
    """The result of loading a library: its largest error, which is None for the empty program, and
    whether a call takes more than SLOW_SECONDS."""

    max_error: float | None
    is_slow: bool


_samplers: dict[str, Sampler] = {}
"""The samplers of all subjects that were prepared, by the subject's name."""
_kernels: dict[str, Kernel] = {}
"""The kernels of libraries that were loaded, by the subject's name."""
_checked: dict[str, _Checked] = {}
"""Libraries that were loaded and found right, by the subject's name."""
_compiled: dict[tuple[str, str], list[Peer]] = {}
"""Peers that have compiled and were not prepared yet, by workload key and group."""


def load_libraries(order: RunOrder, libraries: dict[str, Path]) -> Prepared:
    """Load and check libraries, which :func:`prepare_libraries` makes ready to be timed.

    The library named ``empty`` is the empty program, which is not checked. A wrong library is
    dropped. A library that crashes raises an error or ends the process.
    """
    workload = templates.parse_key(order.workload_key)
    cases, tensors = read_cases(order.workload_key, order.cases), Tensors(workload, order.kind)
    dropped: dict[str, str] = {}
    for name, path in libraries.items():
        if name == EMPTY:
            _kernels[name] = Loaded(path, Tensors(EMPTY_WORKLOAD, order.kind)).kernel()
            _checked[name] = _Checked(None, is_slow=False)
            continue
        loaded = Loaded(path, tensors)
        try:
            error = check(loaded.errors, cases, workload.max_error)
        except WrongAnswer as wrong:
            dropped[name] = str(wrong)
            continue
        start = time.perf_counter()
        loaded.run(cases[0])
        is_slow = time.perf_counter() - start > SLOW_SECONDS
        _kernels[name] = loaded.kernel()
        _checked[name] = _Checked(error, is_slow)
    tensors.fill(cases[0])
    return Prepared({}, dropped)


def prepare_libraries(order: RunOrder) -> Prepared:
    """Make the libraries that were loaded and found right ready to be timed, under their names."""
    workload, subjects = templates.parse_key(order.workload_key), dict[str, Subject]()
    for name, found in _checked.items():
        sampler: Sampler
        most: int | None
        kernel = _kernels[name]
        if found.is_slow:
            sampler, most = _OneCall(kernel, device(order.kind)), 1
        else:
            sampler, most = _warm(order, workload, kernel), None
        subjects[name] = _subject_of(name, sampler, KERNEL, found.max_error, most)
    return Prepared(subjects, {})


def compile_peers(workload_key: str, cases: Path, kind: str, group: str) -> None:
    """Do the part of preparing a group of peers that can be done ahead, during a job's search.

    Their libraries are imported and compile. A peer that fails is tried again by
    :func:`prepare_peers`, which reports its error.
    """
    workload = templates.parse_key(workload_key)
    case = read_cases(workload_key, cases)[0]
    found = []
    for peer in peers(workload, kind, group):
        with suppress(Exception):
            peer.compile(*case.inputs)
            found.append(peer)
    _compiled[workload_key, group] = found


def prepare_peers(order: RunOrder, group: str) -> Prepared:
    """Make a group of peers ready to be timed.

    A peer that fails, or takes too long to be ready, is dropped. A wrong one is timed all the same,
    and its error is reported with its time.
    """
    workload = templates.parse_key(order.workload_key)
    case = read_cases(order.workload_key, order.cases)[0]
    compiled = {peer.name: peer for peer in _compiled.pop((order.workload_key, group), [])}
    subjects: dict[str, Subject] = {}
    dropped: dict[str, str] = {}
    for listed in peers(workload, order.kind, group):
        peer = compiled.get(listed.name, listed)
        try:
            kernel, error = _prepare_peer(peer, case, compiled=peer is not listed)
            captured = order.kind == "cuda" and kernel.graphed is not None
            kind = order.kind if captured else "cpu"
            sampler = _warm(order, workload, kernel, kind)
            level = KERNEL if captured else CALL
            subject = _subject_of(peer.name, sampler, level, error)
            subjects[peer.name] = replace(subject, is_peer=True)
        except Exception as failed:
            dropped[peer.name] = reason(failed)
    return Prepared(subjects, dropped)


def prepare_delivered(order: RunOrder, manifest: dict[str, Any], name: str) -> Prepared:
    """Make a library ready to be timed as a user calls it.

    It is loaded from disk by :class:`tuner.library.load.Library`, called on arrays, and checked
    once more. On a CPU its kernel is a subject. Its call is a subject if arrays can be made on the
    device; on a GPU this needs PyTorch. :func:`subject_name` gives the subjects' names. Raises
    WrongAnswer if the library is wrong.
    """
    named_kernel, named_call = subject_name(name, KERNEL), subject_name(name, CALL)
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
        subjects[named_kernel] = _subject_of(
            named_kernel, _warm(order, workload, _kernels[named_kernel]), KERNEL, error
        )
    call, wait = _call_and_wait(library, cases[0].inputs, order.kind)
    if call is not None:
        kernel = Kernel(call=call)
        sampler: Sampler = (
            _warm(order, workload, kernel, "cpu") if wait is None else (_QueuedCalls(kernel, wait))
        )
        subjects[named_call] = _subject_of(named_call, sampler, CALL, error)
    return Prepared(subjects, {} if subjects else {named_call: "PyTorch is not installed"})


def subject_name(name: str, level: str) -> str:
    """Return the name of a delivered library's kernel or call as a subject."""
    return f"{name}'s {level}"


def sample(names: Sequence[str]) -> list[Sample]:
    """Take a sample of each of these subjects, one after the other.

    Then wait until no thread of this process spins, because another process is timed next.
    """
    samples = [taken(_samplers[name]) for name in names]
    rest()
    return samples


def cold(order: RunOrder, names: Sequence[str], count: int) -> dict[str, Summary]:
    """Return cold summaries of these libraries, each of ``count`` samples and a dropped first
    one."""
    clock = clock_for(order.kind, order.cache_bytes, templates.parse_key(order.workload_key).bytes)
    found = {}
    for name in names:
        sampler = clock.cold(_kernels[name])
        samples = [taken(sampler) for _ in range(count + 1)]
        found[name] = summarise(samples, sampler.calls)
    return found


def reason(error: Exception) -> str:
    """Return an error's type and message, in at most 500 characters."""
    return f"{type(error).__name__}: {error}"[:500]


class _OneCall:
    """A sampler of one call by the host's clock, for subjects that take seconds."""

    calls, disturbed = 1, False

    def __init__(self, kernel: Kernel, device: Any) -> None:
        self._kernel, self._device = kernel, device

    def sample(self) -> float:
        start = time.perf_counter()
        self._kernel.call()
        self._device.sync()
        return time.perf_counter() - start


class _QueuedCalls:
    """A sampler of many calls that return before the device is done, and one wait for all of
    them."""

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


def _call_and_wait(
    library: Library, given: Sequence[Array], kind: str
) -> tuple[Callable[[], Any] | None, Callable[[], None] | None]:
    """Return a call of the library on arrays on the device, and a function that waits for its end.

    The call is given its outputs. The second function is None on a CPU, where a call returns when
    it is done. Both are None on a GPU without PyTorch.
    """
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
    """Return a call of the library on these arrays, the outputs last."""
    known = len(library.workload.inputs)
    given, outputs = arrays[:known], tuple(arrays[known:])
    return partial(library, *given, out=outputs if len(outputs) > 1 else outputs[0])


def _prepare_peer(peer: Peer, case: Case, *, compiled: bool) -> tuple[Kernel, float]:
    """Return a peer as a clock times it, and its largest error. Raise TimeoutError after
    :data:`PREPARE_SECONDS`."""

    def prepare() -> tuple[Kernel, float]:
        kernel = peer.kernel() if compiled else peer.prepare(*case.inputs)
        errors = [
            relative_error(y, case.references[name], case.scales[name])
            for name, y in zip(case.references, peer.outputs(), strict=True)
        ]
        return kernel, float(np.max(errors))

    return call_within(PREPARE_SECONDS, prepare)


def _warm(order: RunOrder, workload: Workload, kernel: Kernel, kind: str | None = None) -> Sampler:
    """Return a warm sampler by the clock of ``kind``, by default that of the order's device."""
    clock = clock_for(kind or order.kind, order.cache_bytes, workload.bytes)
    return clock.warm(kernel, ROUGH_SAMPLE_SECONDS if order.rough else SAMPLE_SECONDS)


def _subject_of(
    name: str, sampler: Sampler, level: str, error: float | None, most: int | None = None
) -> Subject:
    """Keep the sampler under that name, and return its subject, whose ``seconds`` are measured."""
    _samplers[name] = sampler
    once = sampler.sample()
    seconds = (min(once, sampler.sample()) if most is None else once) * sampler.calls
    return Subject(seconds, sampler.calls, level, error, most)
