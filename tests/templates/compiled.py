"""Programs compiled in this process and run between fences."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.dtypes import in_numpy
from templates.template import Template
from templates.workload import Workload
from tuner.build.alignment import element_aligned
from tuner.device import cpu_facts
from tuner.library.tensors import shared
from tuner.measure.cases import Array, Case
from tuner.measure.check import relative_error

FENCE = 64  # elements on either side of a tensor


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
        self._workload = workload

    def __call__(self, case: Case) -> Array:
        """The output, NaN where nothing was written; what is read beyond an input is NaN too.
        AssertionError where something was written beyond a tensor."""
        return self.run(*case.given)

    def run(self, *given: Array) -> Array:
        """As of what is given in a case."""
        output = self._workload.output
        y = np.full(output.shape, np.nan, in_numpy(output.dtype))
        fenced = [_Fenced(array) for array in (*given, y)]
        self._main(*(shared(each.tensor) for each in fenced))
        assert all(each.intact() for each in fenced), "written beyond a tensor's end"
        return fenced[-1].tensor

    def error(self, case: Case) -> float:
        """Of the output, as candidates are checked."""
        return relative_error(self(case), case.reference, case.scale)


class _Fenced:
    def __init__(self, values: NDArray[Any]) -> None:
        self._memory = np.full(values.size + 2 * FENCE, np.nan, values.dtype)
        self.tensor = self._memory[FENCE : FENCE + values.size].reshape(values.shape)
        self.tensor[...] = values

    def intact(self) -> bool:
        return bool(np.isnan(self._memory[:FENCE]).all() and np.isnan(self._memory[-FENCE:]).all())
