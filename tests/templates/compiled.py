"""Programs compiled in this process and run between fences."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.template import Template
from templates.workload import Workload
from tuner import cpu_facts
from tuner.measure.alignment import element_aligned
from tuner.measure.cases import Case

FENCE = 64  # floats on either side of a tensor

Array = NDArray[np.float32]


@cache
def cpu_target() -> Any:
    import tvm

    return tvm.target.Target(cpu_facts.device().target)


class Compiled:
    """A CPU program of a template, to be run in this process."""

    def __init__(self, template: Template[Any], workload: Workload, config: dict[str, Any]) -> None:
        import tvm

        module = template.schedule(workload, config).mod
        self._main = tvm.compile(element_aligned(module), target=cpu_target())["main"]
        self._output_shape = workload.output_shape

    def __call__(self, case: Case) -> Array:
        """The output, NaN where nothing was written; what is read beyond an input is NaN too.
        AssertionError where something was written beyond a tensor."""
        fenced = [_Fenced(array) for array in (case.x, case.w, np.full(self._output_shape, np.nan))]
        self._main(*(each.tensor for each in fenced))
        assert all(each.intact() for each in fenced), "written beyond a tensor's end"
        return fenced[2].tensor


class _Fenced:
    def __init__(self, values: NDArray[Any]) -> None:
        self._memory = np.full(values.size + 2 * FENCE, np.nan, np.float32)
        self.tensor = self._memory[FENCE : FENCE + values.size].reshape(values.shape)
        self.tensor[...] = values

    def intact(self) -> bool:
        return bool(np.isnan(self._memory[:FENCE]).all() and np.isnan(self._memory[-FENCE:]).all())
