"""What the finalists' round needs of a peer."""

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
    """A library's way to compute a workload. ``seconds`` is about what one call takes, told from
    the shape."""

    name: str
    seconds: float

    @abstractmethod
    def compile(self, *given: Array) -> None:
        """Take a copy of what is given, in the order of the workload's arguments, and have the
        library load and compile what its first call needs. That takes the host long; a GPU has a
        few calls to make, but no search among ways to compute."""

    @abstractmethod
    def ready(self) -> Kernel:
        """What is timed, at its best, after :meth:`compile`."""

    @abstractmethod
    def output(self) -> Array:
        """What the call computes, once it is ready, of a workload with one output."""

    def outputs(self) -> tuple[Array, ...]:
        """The same of any workload."""
        return (self.output(),)

    def prepare(self, *given: Array) -> Kernel:
        """Compiled, and ready to be timed on what is given."""
        self.compile(*given)
        return self.ready()


Listing = Callable[[Any, str], Iterable[Peer]]
"""A library's peers for a workload of one operator, beside a device of that kind."""


class Broken(Peer):
    """A peer that can't be timed here; trying to says why."""

    seconds = 0.0

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self._error = name, error

    def compile(self, *given: Array) -> NoReturn:
        raise self._error

    def ready(self) -> NoReturn:
        raise self._error

    def output(self) -> NoReturn:
        raise self._error


class NotServed(Exception):
    """Why a library can't compute what else it is for."""


def installed(library: str) -> bool:
    return find_spec(library) is not None


def in_float32(workload: Workload, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call that reckons in its inputs' dtype, made to reckon in float32; conversions from and to
    another dtype are part of it."""
    dtype = workload.dtype
    if dtype == "float32":
        return call
    own = in_numpy(dtype)
    return lambda *given: call(*(array.astype("float32") for array in given)).astype(own)


def in_mode(workload: Conv1dWorkload, call: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """``call(x, w, mode=…)``, which knows NumPy's modes, in the workload's."""
    if workload.mode != "causal":
        return lambda x, w: call(x, w, mode=workload.mode)
    return lambda x, w: call(x, w, mode="full")[: workload.length]


def in_mode_of_first(
    workload: Conv1dWorkload, call: Callable[..., Any]
) -> Callable[[Any, Any], Any]:
    """The same of a call whose mode same is as long as the first that it is given, where NumPy's
    is as long as the longer one."""
    if workload.mode != "same" or workload.N <= workload.M:
        return in_mode(workload, call)
    start = workload.N - 1 - workload.left
    return lambda x, w: call(x, w, mode="full")[start : start + workload.length]


def transform_seconds(workload: Conv1dWorkload, flops_per_second: float) -> float:
    """Three real transforms of the whole signal, 2.5 n log2(n) operations each."""
    size = workload.M + workload.span
    return 7.5 * size * log2(size) / flops_per_second
