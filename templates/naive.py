"""The naive schedule as a configuration, which is a finalist of every round."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config
from templates.workload import Workload

NAME = "naive"


class _Naive:
    """The naive schedule of any operator on one kind of device.

    It is not a template, because it has no knobs; ``{"template": "naive"}`` is its only
    configuration. Importing this module never imports TVM; :meth:`computation` and :meth:`schedule`
    do.

    ``version`` is part of every record: raise it when the program of an operator's baseline
    changes.
    """

    name = NAME
    kind: ClassVar[str]
    version = 1

    def config(self) -> Config:
        return {"template": self.name}

    def space(self) -> ConfigSpace:
        """Return a space that holds only that configuration."""
        return ConfigSpace(self.name, self.version)

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        """Return 1 on a CPU, because the schedule is serial there; None on a GPU."""
        return 1 if self.kind == "cpu" else None

    def computation(self, workload: Workload, config: Config) -> Any:
        """Return the unscheduled program, a TIR function of the workload's arguments."""
        return _baseline(workload).computation(workload)

    def schedule(self, workload: Workload, config: Config) -> Any:
        """Return a ``tvm.s_tir.Schedule`` whose ``mod`` has one function ``main``."""
        return _baseline(workload).naive(workload, self.kind)


class NaiveOnCpu(_Naive):
    kind = "cpu"


class NaiveOnCuda(_Naive):
    kind = "cuda"


def naive_on(kind: str) -> NaiveOnCpu | NaiveOnCuda:
    """Return the naive schedule for a kind of device, "cpu" or "cuda"."""
    return NaiveOnCpu() if kind == "cpu" else NaiveOnCuda()


def _baseline(workload: Workload) -> Any:
    return importlib.import_module(f"templates.{workload.operator}.ladder.baseline")
