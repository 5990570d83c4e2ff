"""CPU programs that are compiled in this process and run on tensors between fences of NaN."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.dtypes import in_numpy
from templates.template import Template
from templates.workload import Workload
from tests.templates.once import once
from tuner.build import build_cache
from tuner.build.alignment import element_aligned
from tuner.build.compile import cache_key
from tuner.build.linker import LIBRARIES, linker
from tuner.device import cpu_facts
from tuner.library.tensors import shared_view
from tuner.measure.cases import Array, Case
from tuner.measure.check import relative_error

FENCE = 64  # elements on either side of a tensor


@cache
def cpu_target() -> dict[str, Any]:
    """Return the target of this CPU without LLVM's optimisation, which takes half of a build's
    time. These tests check what programs compute; libraries of jobs and of tests/tuner are
    optimised."""
    return cpu_facts.device().target | {"opt-level": 0}


class Compiled:
    """A CPU program of a template, to be run in this process.

    Every tensor of a run lies between two fences of ``FENCE`` NaNs, and outputs are NaN before the
    run. So a read beyond a tensor, or an element that was not written, shows as NaN. A write beyond
    a tensor raises AssertionError.
    """

    def __init__(self, template: Template[Any], workload: Workload, config: dict[str, Any]) -> None:
        import tvm
        from tvm.support import cc

        module = element_aligned(template.schedule(workload, config).mod)
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "compiled.so"

            def compiled() -> build_cache.Entry:
                executable = tvm.compile(module, target=tvm.target.Target(cpu_target()))
                executable.export_library(
                    str(library), fcompile=cc.create_shared, cc=linker(), options=[*LIBRARIES]
                )
                return build_cache.Entry(library.read_bytes(), "")

            library.write_bytes(
                once("library", cache_key(module, cpu_target()), make=compiled).binary
            )
            self._main = tvm.runtime.load_module(str(library))["main"]
        self._workload = workload

    def __call__(self, case: Case) -> Array:
        """Return the only output for a case's inputs."""
        return self.run(*case.inputs)

    def run(self, *given: Array) -> Array:
        """Return the only output for the inputs ``given``, in the order of ``workload.inputs``."""
        (y,) = self.outputs(*given)
        return y

    def outputs(self, *given: Array) -> list[Array]:
        """Return all outputs for the inputs ``given``, in the order of ``workload.outputs``."""
        outputs = [
            np.full(each.shape, np.nan, in_numpy(each.dtype)) for each in self._workload.outputs
        ]
        fenced = [_Fenced(array) for array in (*given, *outputs)]
        self._main(*(shared_view(each.tensor) for each in fenced))
        assert all(each.intact() for each in fenced), "written beyond a tensor's end"
        return [each.tensor for each in fenced[len(given) :]]

    def errors(self, case: Case) -> dict[str, float]:
        """Return the error of each output on a case, by name, as the runner measures it."""
        found = zip(case.references, self.outputs(*case.inputs), strict=True)
        return {
            name: relative_error(y, case.references[name], case.scales[name]) for name, y in found
        }


class _Fenced:
    """A copy of a tensor between two fences of NaN in one piece of memory."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._memory = np.full(values.size + 2 * FENCE, np.nan, values.dtype)
        self.tensor = self._memory[FENCE : FENCE + values.size].reshape(values.shape)
        self.tensor[...] = values

    def intact(self) -> bool:
        return bool(np.isnan(self._memory[:FENCE]).all() and np.isnan(self._memory[-FENCE:]).all())
