"""The interface between the finalists' round and a peer, and helpers that several peers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from math import log2
from typing import Any, NoReturn

from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import in_numpy
from templates.workload import Workload
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel


class Peer(ABC):
    """A library's way to compute a workload. ``seconds`` is an estimate of one call's time, made
    from the shape alone."""

    name: str
    seconds: float

    @abstractmethod
    def compile(self, *given: Array) -> None:
        """Copy the given arrays, which are in the order of the workload's arguments, and have the
        library load and compile what its first call needs.

        This may take the host long. It may make a few calls on a GPU, but must not search there
        for the fastest way to compute, because something else may be timed meanwhile."""

    @abstractmethod
    def kernel(self) -> Kernel:
        """Choose the fastest way to compute, and return what is timed. Call :meth:`compile`
        first."""

    @abstractmethod
    def output(self) -> Array:
        """Call the peer, and return the output of a workload that has one. Call :meth:`kernel`
        first."""

    def outputs(self) -> tuple[Array, ...]:
        """Call the peer, and return all outputs of the workload. Call :meth:`kernel` first."""
        return (self.output(),)

    def prepare(self, *given: Array) -> Kernel:
        """Compile for the given arrays, and return what is timed."""
        self.compile(*given)
        return self.kernel()


Listing = Callable[[Any, str], Iterable[Peer]]
"""A function that lists a library's peers, given a workload of one operator and the kind of the
job's device."""


class Broken(Peer):
    """A peer that can't be timed here. Its methods raise the error that says why."""

    seconds = 0.0

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self._error = name, error

    def compile(self, *given: Array) -> NoReturn:
        raise self._error

    def kernel(self) -> NoReturn:
        raise self._error

    def output(self) -> NoReturn:
        raise self._error


class NotServed(Exception):
    """A library computes workloads of this kind, but not this one. The message says why."""


def installed(library: str) -> bool:
    """Return whether the library could be imported, without importing it."""
    return find_spec(library) is not None


def in_float32(workload: Workload, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``call``, made to compute in float32. If the workload has another dtype, the timed
    call also converts the inputs from it and the output back to it."""
    dtype = workload.dtype
    if dtype == "float32":
        return call
    own = in_numpy(dtype)
    return lambda *given: call(*(array.astype("float32") for array in given)).astype(own)


def in_mode(workload: Conv1dWorkload, call: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return ``call(x, w, mode=…)``, which knows NumPy's modes, as a function of ``x`` and ``w``
    in the workload's mode."""
    if workload.mode != "causal":
        return lambda x, w: call(x, w, mode=workload.mode)
    return lambda x, w: call(x, w, mode="full")[: workload.length]


def in_mode_of_first(
    workload: Conv1dWorkload, call: Callable[..., Any]
) -> Callable[[Any, Any], Any]:
    """Do what :func:`in_mode` does for a call with SciPy's modes. In mode same, SciPy's output has
    the length of the first argument, NumPy's that of the longer argument."""
    if workload.mode != "same" or workload.N <= workload.M:
        return in_mode(workload, call)
    start = workload.N - 1 - workload.left
    return lambda x, w: call(x, w, mode="full")[start : start + workload.length]


def transform_seconds(workload: Conv1dWorkload, flops_per_second: float) -> float:
    """Estimate the time of a convolution by transforms: three real transforms of the whole signal,
    of 2.5 n log2(n) operations each."""
    size = workload.M + workload.span
    return 7.5 * size * log2(size) / flops_per_second
