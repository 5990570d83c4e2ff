"""Template: for one operator and kind of device, a search space and a schedule for each of its
configurations."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

from templates.arithmetic import Arithmetic
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.workload import Workload

Config = dict[str, Any]
PARALLEL = "parallel"
"""The value of the knob ``threading`` with which a program for a CPU runs on all its threads."""
W = TypeVar("W", bound=Workload)


class Template(ABC, Generic[W]):
    """WHAT can be tuned. Importing a template never imports TVM; only :meth:`schedule` does.

    ``version`` is part of every record: raise it when the same configuration would give another
    program.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["cpu", "cuda"]]
    version: ClassVar[int]
    arithmetic: ClassVar[Arithmetic]
    by_default: ClassVar[bool] = True
    """Whether it is searched for an order that names no templates."""
    computes_gradients: ClassVar[bool] = False
    """Whether it is asked about gradients alone. The others are asked about forward workloads
    alone; gradients that one of these computes reach them through ``AsForward``."""

    def applies(self, workload: W, limits: DeviceLimits) -> bool:
        """Whether this template can serve the workload on a device with these limits."""
        return limits.kind == self.kind

    @abstractmethod
    def space(self, workload: W, limits: DeviceLimits) -> ConfigSpace:
        """All valid configurations; every one of them is a correct program for the workload."""

    @abstractmethod
    def default(self, workload: W, limits: DeviceLimits) -> Config:
        """A member of :meth:`space` that is reasonable without any measurement."""

    @abstractmethod
    def features(self, workload: W, config: Config, limits: DeviceLimits) -> dict[str, float]:
        """Derived quantities for the cost model, the same names for every configuration; its user
        adds the workload's bytes and flops."""

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        """How many threads of the CPU the configuration's program runs on; None on a GPU."""
        return threads_of(config, limits)

    def computation(self, workload: W, config: Config) -> Any:
        """The unscheduled program, a TIR function of the workload's arguments. It may take one more
        behind them, its workspace: one dimension of float32, which whoever calls the library
        allocates. Imports TVM."""
        return self._room().computation(workload, config)

    def schedule(self, workload: W, config: Config) -> Any:
        """The configuration's program, a ``tvm.s_tir.Schedule`` whose ``mod`` has one function
        ``main``. Imports TVM."""
        room = self._room()
        s_tir = importlib.import_module("tvm.s_tir")
        schedule = s_tir.Schedule(room.computation(workload, config))
        if hasattr(room, "schedule"):  # if not, the computation has its loops in place
            room.schedule(schedule, config)
        return schedule

    def _room(self) -> Any:
        """The module of the same name in ``schedules/``, beside that of the space."""
        package, _, name = type(self).__module__.rpartition(".")
        return importlib.import_module(f"{package}.schedules.{name}")


def threads_of(config: Config, limits: DeviceLimits) -> int | None:
    """How many threads of the CPU a configuration uses, by its knob ``threading``; None on a
    GPU."""
    if limits.kind != "cpu":
        return None
    return limits.units if config.get("threading") == PARALLEL else 1
