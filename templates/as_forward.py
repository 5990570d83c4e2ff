"""Adapter that lets templates of forward workloads compute gradients."""

from __future__ import annotations

from typing import TypeVar

from templates.adapted import Adapted
from templates.limits import DeviceLimits
from templates.template import Template
from templates.workload import Workload

P = TypeVar("P")


class AsForward(Adapted[Workload]):
    """Adapter of a forward template for gradients that are themselves forward convolutions.

    Their form is :attr:`Workload.as_forward`.
    """

    def form(self, workload: Workload) -> Workload:
        return workload.as_forward or workload

    def applies(self, workload: Workload, limits: DeviceLimits) -> bool:
        same = workload.as_forward
        return same is not None and self.template.applies(same, limits)


def adapt(program: P, workload: Workload) -> P | AsForward:
    """Return the program, wrapped in :class:`AsForward` if it must serve a gradient.

    A template of forward workloads is wrapped if the workload is a gradient. ``program`` may also
    be the naive schedule or a trace: they compute every direction and are returned as they are.
    """
    if workload.is_forward or not isinstance(program, Template) or program.computes_gradients:
        return program
    return AsForward(program)
