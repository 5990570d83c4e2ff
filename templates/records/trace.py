"""Configuration of MetaSchedule's result: the trace of the primitives that it applied."""

from __future__ import annotations

import importlib
from typing import Any

from templates.limits import DeviceLimits
from templates.template import Config
from templates.workload import Workload


class Trace:
    """The schedule of a trace, for any operator and kind of device.

    It is not a template. It has no space, because only MetaSchedule's search can tell what would be
    in it. A configuration is ``{"template": "trace", "trace": text}``, in which the text is
    MetaSchedule's JSON of a trace, its postprocessing included.

    ``version`` is part of every record, as a template's is: raise it when the computation of an
    operator's baseline changes. Importing this module never imports TVM; :meth:`computation` and
    :meth:`schedule` do.
    """

    name = "trace"
    version = 1

    def config(self, text: str) -> Config:
        """Return the configuration of a trace, given as JSON text."""
        return {"template": self.name, "trace": text}

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        """Return how many threads of the CPU the program runs on; None on a GPU.

        A CPU uses all of its threads, because MetaSchedule makes its programs for CPUs parallel.
        """
        return limits.units if limits.kind == "cpu" else None

    def computation(self, workload: Workload, config: Config) -> Any:
        """Return the unscheduled program, a TIR function of the workload's arguments.

        It is the naive schedule's, the same for every configuration.
        """
        baseline = importlib.import_module(f"templates.{workload.operator}.ladder.baseline")
        return baseline.computation(workload)

    def schedule(self, workload: Workload, config: Config) -> Any:
        """Return the trace applied, a ``tvm.s_tir.Schedule`` with one function ``main``.

        Raise InvalidConfig if the text is not a trace of this workload.
        """
        module = importlib.import_module("templates.records.replay")
        return module.apply_trace(self.computation(workload, config), config.get("trace"))
