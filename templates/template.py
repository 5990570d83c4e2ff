"""Template: for one operator and kind of device, a search space and its schedules."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

from templates.arithmetic import Arithmetic
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.workload import Workload

Config = dict[str, Any]
Features = dict[str, float]
PARALLEL = "parallel"
"""The value of the knob ``threading`` with which a program runs on all threads of a CPU."""
W = TypeVar("W", bound=Workload)


class Template(ABC, Generic[W]):
    """A search space and its schedules, for one operator and kind of device.

    Importing a template never imports TVM; only :meth:`computation` and :meth:`schedule` do.

    ``version`` is part of every record: raise it when the same configuration would give another
    program.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["cpu", "cuda"]]
    version: ClassVar[int]
    arithmetic: ClassVar[Arithmetic]
    by_default: ClassVar[bool] = True
    """Whether an order that names no templates searches this one."""
    computes_gradients: ClassVar[bool] = False
    """Whether the template serves gradients and nothing else.

    Other templates serve forward workloads. Through ``AsForward`` they also serve the gradients
    that a forward workload computes (:attr:`Workload.as_forward`).
    """

    takes_gates: ClassVar[bool] = False
    """Whether the template serves workloads whose input has gates, and no others."""

    def applies(self, workload: W, limits: DeviceLimits) -> bool:
        """Return whether this template can serve the workload on a device with these limits."""
        return limits.kind == self.kind

    @abstractmethod
    def space(self, workload: W, limits: DeviceLimits) -> ConfigSpace:
        """Return all valid configurations; each of them is a correct program for the workload."""

    @abstractmethod
    def default(self, workload: W, limits: DeviceLimits) -> Config:
        """Return a member of :meth:`space` that is reasonable without any measurement."""

    @abstractmethod
    def features(self, workload: W, config: Config, limits: DeviceLimits) -> Features:
        """Return derived quantities for the cost model.

        Their names are the same for every configuration. The caller adds the workload's bytes and
        flops.
        """

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        """Return how many threads of the CPU the configuration's program runs on; None on a GPU."""
        return threads_of(config, limits)

    def computation(self, workload: W, config: Config) -> Any:
        """Return the unscheduled program, a TIR function of the workload's arguments.

        It may take a workspace after them: one-dimensional float32, allocated by whoever calls the
        library. Imports TVM.
        """
        return self._schedules_module().computation(workload, config)

    def schedule(self, workload: W, config: Config) -> Any:
        """Return the configuration's program, a ``tvm.s_tir.Schedule`` with one function ``main``.

        Imports TVM.
        """
        module = self._schedules_module()
        s_tir = importlib.import_module("tvm.s_tir")
        schedule = s_tir.Schedule(module.computation(workload, config))
        if hasattr(module, "schedule"):  # without one, the computation already has its loops
            module.schedule(schedule, config)
        return schedule

    def _schedules_module(self) -> Any:
        """Import and return the module ``schedules/<name>`` beside the template's own module."""
        package, _, name = type(self).__module__.rpartition(".")
        return importlib.import_module(f"{package}.schedules.{name}")


def threads_of(config: Config, limits: DeviceLimits) -> int | None:
    """Return how many CPU threads a configuration uses, by its knob ``threading``.

    Return None on a GPU.
    """
    if limits.kind != "cpu":
        return None
    return limits.units if config.get("threading") == PARALLEL else 1
