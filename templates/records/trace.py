"""MetaSchedule's result as a configuration: the primitives that it applied, and its choices."""

from __future__ import annotations

import importlib
from typing import Any

from templates.limits import DeviceLimits
from templates.template import Config
from templates.workload import Workload


class Trace:
    """Not a template: it is for every operator and kind of device. It has no space, because only
    MetaSchedule's search can tell what would be in it. A configuration is ``{"template": "trace",
    "trace": text}``, the text MetaSchedule's JSON of a trace, its postprocessing included.

    ``version`` is part of every record, as a template's is: raise it when a baseline's computation
    changes. Importing this never imports TVM; :meth:`computation` and :meth:`schedule` do.
    """

    name = "trace"
    version = 1

    def config(self, text: str) -> Config:
        """The configuration of a trace, given as JSON."""
        return {"template": self.name, "trace": text}

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        """MetaSchedule's programs for a CPU are parallel wherever there is more than one thread;
        None on a GPU."""
        return limits.units if limits.kind == "cpu" else None

    def computation(self, workload: Workload, config: Config) -> Any:
        """The unscheduled program, a TIR function of the workload's arguments, the same for every
        configuration: the naive schedule's."""
        baseline = importlib.import_module(f"templates.{workload.operator}.ladder.baseline")
        return baseline.computation(workload)

    def schedule(self, workload: Workload, config: Config) -> Any:
        """The trace applied, a ``tvm.s_tir.Schedule`` whose ``mod`` has one function ``main``.
        Raises InvalidConfig for what is no trace of this workload."""
        room = importlib.import_module("templates.records.replay")
        return room.replayed(self.computation(workload, config), config.get("trace"))
