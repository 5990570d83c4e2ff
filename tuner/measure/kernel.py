"""Tensors on a device and what is called on them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.argument import Argument, workspace_of
from templates.dtypes import in_numpy
from templates.workload import Workload
from tuner.device.cuda import checked
from tuner.library import workspace
from tuner.library.runtime import load_runtime
from tuner.measure.cases import Array, Case
from tuner.measure.check import relative, relative_error
from tuner.measure.device_error import LargestDifference

KEPT = 0.25
"""Share of a GPU's free memory for cases that stay there."""


@dataclass(frozen=True)
class Kernel:
    """What the clocks need of something that is timed. Only ``call`` is required.

    ``call()`` runs it once on its tensors. ``evaluator(number, repeat)`` is TVM's loop around a
    compiled function, seconds for each repeat. ``rotated(n)`` gives calls on n separate sets of
    tensors. ``graphed(copies, stream)`` replays that many copies on a CUDA stream, where a
    library captures its own graphs; one that can't be captured calls itself so often.
    """

    call: Callable[[], Any]
    evaluator: Callable[..., list[float]] | None = None
    rotated: Callable[[int], list[Callable[[], Any]]] | None = None
    graphed: Callable[[int, int], Callable[[], Any]] | None = None


def device(kind: str) -> Any:
    """TVM's device 0 of that kind. Loads its runtime."""
    import tvm

    if kind == "cuda":
        load_runtime(kind)  # without the compiler TVM loads no device's runtime by itself
        return tvm.cuda(0)
    return tvm.cpu(0)


class Tensors:
    """One set of a workload's arguments on a device, shared by all subjects of a round."""

    def __init__(self, workload: Workload, kind: str) -> None:
        self.workload = workload
        self.device = device(kind)
        self.arguments = self.another()
        known = len(workload.given)
        self.given, self.outputs = self.arguments[:known], self.arguments[known:]
        self._poison = [
            self.placed(np.full(each.shape, np.nan, in_numpy(each.dtype)))
            for each in workload.outputs
        ]
        self._kept: dict[tuple[str, str], Any] = {}
        self._room = _free_bytes(kind) * KEPT
        self._largest = LargestDifference(self.device) if kind == "cuda" else None
        self._copy = _copied_on_gpu if kind == "cuda" else ctypes.memmove

    def another(self) -> list[Any]:
        """A further set of the same shapes, uninitialised."""
        return [self.empty(argument) for argument in self.workload.arguments]

    def empty(self, argument: Argument) -> Any:
        """Uninitialised memory for an argument."""
        import tvm

        return tvm.runtime.empty(argument.shape, argument.dtype, self.device)

    def placed(self, array: NDArray[Any]) -> Any:
        """The array on the device."""
        import tvm

        return tvm.runtime.tensor(np.ascontiguousarray(array), self.device)

    def fill(self, case: Case) -> None:
        """Set what is given, and the outputs to NaN."""
        for argument, array, target in zip(
            self.workload.given, case.given, self.given, strict=True
        ):
            kept = self._keep(case, argument.name, array)
            if kept is not None:
                self._repeat(kept, target)
            elif array.shape == argument.shape:
                target.copyfrom(array)
            else:
                target.copyfrom(np.resize(array, argument.shape))
        for poison, output in zip(self._poison, self.outputs, strict=True):
            poison.copyto(output)
        self.device.sync()

    def _repeat(self, kept: Any, target: Any) -> None:
        """Fill a tensor with what is kept, again and again."""
        if kept.shape == target.shape:
            target.copyfrom(kept)
            return
        self.device.sync()  # what wrote them; a GPU's context is this thread's from here on
        whole, part = (math.prod(each.shape) * each.dtype.itemsize for each in (target, kept))
        self._copy(target.data_ptr(), kept.data_ptr(), part)
        while part < whole:
            # from its own beginning, twice as much each time: a batch may have a million signals
            self._copy(target.data_ptr() + part, target.data_ptr(), min(part, whole - part))
            part *= 2

    def fetched(self) -> list[Array]:
        """The outputs as they are now."""
        return [output.numpy() for output in self.outputs]

    def errors(self, case: Case) -> dict[str, float]:
        """max|y - ref| / max|ref| of each output as it is now, by their names."""
        outputs = zip(self.workload.outputs, self.outputs, strict=True)
        return {output.name: self._error(case, output.name, y) for output, y in outputs}

    def _error(self, case: Case, name: str, y: Any) -> float:
        exact, scale = case.references[name], case.scales[name]
        kept = None if self._largest is None else self._keep(case, name, exact)
        if self._largest is None or kept is None:
            return relative_error(y.numpy(), exact, scale)
        return relative(self._largest(y, kept), scale)

    def _keep(self, case: Case, part: str, array: NDArray[Any]) -> Any:
        """A part of a case on the device, where it stays: it is copied once for all candidates.
        None if it would take too much of the device's memory."""
        key = case.name, part
        if key not in self._kept:
            if array.nbytes > self._room:
                return None
            self._room -= array.nbytes
            self._kept[key] = self.placed(array)
        return self._kept[key]


def _copied_on_gpu(to: int, source: int, size: int) -> None:
    from cuda.bindings import runtime

    checked(runtime.cudaMemcpy(to, source, size, runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice))


def _free_bytes(kind: str) -> float:
    """Free bytes of a GPU's memory; unlimited on a CPU."""
    if kind != "cuda":
        return math.inf
    from cuda.bindings import runtime

    return float(checked(runtime.cudaMemGetInfo()))


class Loaded:
    """A library loaded from disk, bound to a set of tensors."""

    def __init__(self, library: Path, tensors: Tensors) -> None:
        import tvm

        self._tensors = tensors
        self._module = tvm.runtime.load_module(str(library))
        self._main = self._module["main"]
        elements = workspace.elements(self._module)
        self._workspace = [tensors.empty(each) for each in workspace_of(elements)]

    def run(self, case: Case) -> None:
        """Compute the outputs for a case, into tensors that are filled with NaN before."""
        tensors = self._tensors
        tensors.fill(case)
        self._main(*tensors.arguments, *self._workspace)
        tensors.device.sync()

    def errors(self, case: Case) -> dict[str, float]:
        """max|y - ref| / max|ref| of each output for a case, by their names."""
        self.run(case)
        return self._tensors.errors(case)

    def kernel(self) -> Kernel:
        tensors = self._tensors
        arguments = (*tensors.arguments, *self._workspace)

        def evaluate(**options: Any) -> list[float]:
            evaluator = self._module.time_evaluator("main", tensors.device, **options)
            return list(evaluator(*arguments).results)

        return Kernel(
            call=partial(self._main, *arguments), evaluator=evaluate, rotated=self._rotated
        )

    def _rotated(self, sets: int) -> list[Callable[[], Any]]:
        calls: list[Callable[[], Any]] = []
        for _ in range(sets):
            copies = self._tensors.another()
            for tensor, copy in zip(self._tensors.given, copies, strict=False):
                tensor.copyto(copy)
            calls.append(partial(self._main, *copies, *self._workspace))
        self._tensors.device.sync()
        return calls
