"""A loaded library with its tensors on a device, ready to be called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.workload import Workload


@dataclass(frozen=True)
class Kernel:
    """What the clocks need of something that is timed; only ``call`` must be there.

    ``call()`` runs it once on its tensors. ``evaluator(number, repeat)`` is TVM's loop around a
    compiled function, seconds for each repeat. ``rotated(n)`` gives calls on n separate sets of
    tensors. ``graphed(copies, stream)`` replays that many copies on a CUDA stream, where a
    library captures its own graphs.
    """

    call: Callable[[], Any]
    evaluator: Callable[..., list[float]] | None = None
    rotated: Callable[[int], list[Callable[[], Any]]] | None = None
    graphed: Callable[[int, int], Callable[[], Any]] | None = None


def device(kind: str) -> Any:
    """TVM's name of device 0 of that kind."""
    import tvm

    return tvm.cuda(0) if kind == "cuda" else tvm.cpu(0)


class Loaded:
    """A library loaded from disk, with one set of tensors for its workload."""

    def __init__(self, library: Path, workload: Workload, kind: str) -> None:
        import tvm

        self.device = device(kind)
        self._module = tvm.runtime.load_module(str(library))
        self._main = self._module["main"]
        self._workload = workload
        self._x, self._w, self._y = self._tensors()
        self._poison = np.full(workload.output_shape, np.nan, np.float32)

    def run(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> NDArray[np.float32]:
        """The output for x and w, computed into a tensor that was full of NaN."""
        self._x.copyfrom(np.ascontiguousarray(x))
        self._w.copyfrom(np.ascontiguousarray(w))
        self._y.copyfrom(self._poison)
        self._main(self._x, self._w, self._y)
        self.device.sync()
        result: NDArray[np.float32] = self._y.numpy()
        return result

    def fill(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> None:
        """Set the tensors that :meth:`kernel` calls with."""
        self._x.copyfrom(np.ascontiguousarray(x))
        self._w.copyfrom(np.ascontiguousarray(w))

    def kernel(self) -> Kernel:
        main, arguments = self._main, (self._x, self._w, self._y)

        def evaluate(**options: Any) -> list[float]:
            evaluator = self._module.time_evaluator("main", self.device, **options)
            return list(evaluator(*arguments).results)

        return Kernel(
            call=lambda: main(*arguments), evaluator=evaluate, rotated=self._rotated_calls
        )

    def _rotated_calls(self, sets: int) -> list[Callable[[], Any]]:
        """Calls on that many separate sets of tensors."""
        x, w = self._x.numpy(), self._w.numpy()
        calls: list[Callable[[], Any]] = []
        for _ in range(sets):
            tensors = self._tensors()
            tensors[0].copyfrom(x)
            tensors[1].copyfrom(w)
            calls.append(lambda tensors=tensors: self._main(*tensors))
        return calls

    def _tensors(self) -> tuple[Any, Any, Any]:
        import tvm

        shapes = (
            self._workload.input_shape,
            self._workload.weight_shape,
            self._workload.output_shape,
        )
        x, w, y = (tvm.runtime.empty(shape, self._workload.dtype, self.device) for shape in shapes)
        return x, w, y
