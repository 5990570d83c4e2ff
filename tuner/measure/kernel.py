"""Loading a library for measurement, with its tensors on a device."""

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
from tuner.measure.cases import Case
from tuner.measure.check import relative, relative_error
from tuner.measure.device_error import LargestDifference

KEPT_SHARE = 0.25
"""Share of a GPU's free memory for inputs and references that stay there."""


@dataclass(frozen=True)
class Kernel:
    """Something that is timed, as the clocks need it. Only ``call`` is required.

    ``call()`` runs it once on its tensors. ``evaluator(number=, repeat=)`` is TVM's loop around a
    compiled function and returns the seconds of one call for each repeat. ``rotated(n)`` returns
    calls on n separate sets of tensors. ``graphed(copies, stream)`` is for a library that captures
    its own graphs. It returns a function that replays that many copies on a CUDA stream or, if the
    library can't be captured, calls it that often.
    """

    call: Callable[[], Any]
    evaluator: Callable[..., list[float]] | None = None
    rotated: Callable[[int], list[Callable[[], Any]]] | None = None
    graphed: Callable[[int, int], Callable[[], Any]] | None = None


def device(kind: str) -> Any:
    """Return TVM's device 0 of that kind (``cpu``, ``cuda``), with its runtime loaded.

    Raises MissingRuntime.
    """
    import tvm

    if kind == "cuda":
        load_runtime(kind)  # TVM without its compiler does not load a device's runtime by itself
        return tvm.cuda(0)
    return tvm.cpu(0)


class Tensors:
    """One set of a workload's arguments on a device, shared by all libraries that a process times.

    ``inputs`` are the inputs, ``outputs`` the outputs, ``arguments`` both, in the workload's order.
    """

    def __init__(self, workload: Workload, kind: str) -> None:
        self.workload = workload
        self.device = device(kind)
        self.arguments = self.new_set()
        known = len(workload.inputs)
        self.inputs, self.outputs = self.arguments[:known], self.arguments[known:]
        self._poison = [
            self.to_device(np.full(each.shape, np.nan, in_numpy(each.dtype)))
            for each in workload.outputs
        ]
        self._kept: dict[tuple[str, str], Any] = {}
        self._room = _free_bytes(kind) * KEPT_SHARE
        self._largest = LargestDifference(self.device) if kind == "cuda" else None
        self._copy = _copied_on_gpu if kind == "cuda" else ctypes.memmove

    def new_set(self) -> list[Any]:
        """Return a further set of tensors of the same shapes, uninitialised."""
        return [self.empty(argument) for argument in self.workload.arguments]

    def empty(self, argument: Argument) -> Any:
        """Return an uninitialised tensor for an argument."""
        import tvm

        return tvm.runtime.empty(argument.shape, argument.dtype, self.device)

    def to_device(self, array: NDArray[Any]) -> Any:
        """Return a copy of the array on the device."""
        import tvm

        return tvm.runtime.tensor(np.ascontiguousarray(array), self.device)

    def fill(self, case: Case) -> None:
        """Set the inputs to those of a case, and the outputs to NaN."""
        for argument, array, target in zip(
            self.workload.inputs, case.inputs, self.inputs, strict=True
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
        """Fill the tensor ``target`` with the contents of ``kept``, repeated if it is shorter."""
        if kept.shape == target.shape:
            target.copyfrom(kept)
            return
        # wait until both are written; on a GPU this also makes the context current in this thread
        self.device.sync()
        whole, part = (math.prod(each.shape) * each.dtype.itemsize for each in (target, kept))
        self._copy(target.data_ptr(), kept.data_ptr(), part)
        while part < whole:
            # the filled part is doubled each time, because a batch may have a million signals
            self._copy(target.data_ptr() + part, target.data_ptr(), min(part, whole - part))
            part *= 2

    def errors(self, case: Case) -> dict[str, float]:
        """Return max|y - ref| / max|ref| of each output as it is now, by the outputs' names."""
        outputs = zip(self.workload.outputs, self.outputs, strict=True)
        return {output.name: self._error(case, output.name, y) for output, y in outputs}

    def _error(self, case: Case, name: str, y: Any) -> float:
        exact, scale = case.references[name], case.scales[name]
        kept = None if self._largest is None else self._keep(case, name, exact)
        if self._largest is None or kept is None:
            return relative_error(y.numpy(), exact, scale)
        return relative(self._largest(y, kept), scale)

    def _keep(self, case: Case, part: str, array: NDArray[Any]) -> Any:
        """Return a part of a case as a tensor on the device, where it stays for all candidates.

        Return None if it would take too much of the device's memory.
        """
        key = case.name, part
        if key not in self._kept:
            if array.nbytes > self._room:
                return None
            self._room -= array.nbytes
            self._kept[key] = self.to_device(array)
        return self._kept[key]


def _copied_on_gpu(to: int, source: int, size: int) -> None:
    """Copy ``size`` bytes between two addresses of the GPU's memory."""
    from cuda.bindings import runtime

    checked(runtime.cudaMemcpy(to, source, size, runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice))


def _free_bytes(kind: str) -> float:
    """Return the free bytes of a GPU's memory; infinity for a CPU."""
    if kind != "cuda":
        return math.inf
    from cuda.bindings import runtime

    return float(checked(runtime.cudaMemGetInfo()))


class Loaded:
    """A library loaded from disk and bound to a set of tensors."""

    def __init__(self, library: Path, tensors: Tensors) -> None:
        import tvm

        self._tensors = tensors
        self._module = tvm.runtime.load_module(str(library))
        self._main = self._module["main"]
        elements = workspace.elements(self._module)
        self._workspace = [tensors.empty(each) for each in workspace_of(elements)]

    def run(self, case: Case) -> None:
        """Set the inputs to those of a case and the outputs to NaN, and compute the outputs."""
        tensors = self._tensors
        tensors.fill(case)
        self._main(*tensors.arguments, *self._workspace)
        tensors.device.sync()

    def errors(self, case: Case) -> dict[str, float]:
        """Compute the outputs for a case; return max|y - ref| / max|ref| of each, by their
        names."""
        self.run(case)
        return self._tensors.errors(case)

    def kernel(self) -> Kernel:
        """Return the library as a clock times it."""
        tensors = self._tensors
        arguments = (*tensors.arguments, *self._workspace)

        def evaluate(**options: Any) -> list[float]:
            evaluator = self._module.time_evaluator("main", tensors.device, **options)
            return list(evaluator(*arguments).results)

        return Kernel(
            call=partial(self._main, *arguments), evaluator=evaluate, rotated=self._rotated
        )

    def _rotated(self, sets: int) -> list[Callable[[], Any]]:
        """Return calls on that many separate sets of tensors, each with a copy of the inputs."""
        calls: list[Callable[[], Any]] = []
        for _ in range(sets):
            copies = self._tensors.new_set()
            for tensor, copy in zip(self._tensors.inputs, copies, strict=False):
                tensor.copyto(copy)
            calls.append(partial(self._main, *copies, *self._workspace))
        self._tensors.device.sync()
        return calls
