"""Adapter that lets templates of forward workloads compute gradients."""

from __future__ import annotations

from typing import Any, TypeVar

from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template
from templates.workload import Workload

P = TypeVar("P")
SHARED = ("name", "kind", "version", "arithmetic", "by_default")
"""Attributes that an adapter copies from its template."""


class AsForward(Template[Workload]):
    """A forward template that serves those gradients that are forward convolutions themselves.

    Each method hands the template :attr:`Workload.as_forward` in place of the gradient.
    """

    def __init__(self, template: Template[Any]) -> None:
        self.template = template
        for name in SHARED:
            setattr(self, name, getattr(template, name))

    def applies(self, workload: Workload, limits: DeviceLimits) -> bool:
        same = workload.as_forward
        return same is not None and self.template.applies(same, limits)

    def space(self, workload: Workload, limits: DeviceLimits) -> ConfigSpace:
        return self.template.space(_forward_of(workload), limits)

    def default(self, workload: Workload, limits: DeviceLimits) -> Config:
        return self.template.default(_forward_of(workload), limits)

    def features(
        self, workload: Workload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return self.template.features(_forward_of(workload), config, limits)

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        return self.template.threads(config, limits)

    def computation(self, workload: Workload, config: Config) -> Any:
        return self.template.computation(_forward_of(workload), config)

    def schedule(self, workload: Workload, config: Config) -> Any:
        return self.template.schedule(_forward_of(workload), config)


def adapt(program: P, workload: Workload) -> P | AsForward:
    """Return the program, wrapped in :class:`AsForward` if it must serve a gradient.

    That is so if it is a template of forward workloads and the workload is a gradient. ``program``
    may also be the naive schedule or a trace, which compute every direction and are returned as
    they are.
    """
    if workload.is_forward or not isinstance(program, Template) or program.computes_gradients:
        return program
    return AsForward(program)


def _forward_of(workload: Workload) -> Workload:
    return workload.as_forward or workload
