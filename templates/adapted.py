"""Adapted: a template that serves a workload through another template, in another form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template, W

SHARED = ("name", "kind", "version", "arithmetic", "by_default")
"""Attributes that an adapter copies from its template."""


class Adapted(Template[W]):
    """Adapter that gives ``template`` the :meth:`form` of a workload instead of the workload."""

    def __init__(self, template: Template[Any]) -> None:
        self.template = template
        for name in SHARED:
            setattr(self, name, getattr(template, name))

    @abstractmethod
    def form(self, workload: W) -> Any:
        """Return the workload that the template gets in place of this one."""

    def space(self, workload: W, limits: DeviceLimits) -> ConfigSpace:
        return self.template.space(self.form(workload), limits)

    def default(self, workload: W, limits: DeviceLimits) -> Config:
        return self.template.default(self.form(workload), limits)

    def features(self, workload: W, config: Config, limits: DeviceLimits) -> Features:
        return self.template.features(self.form(workload), config, limits)

    def threads(self, config: Config, limits: DeviceLimits) -> int | None:
        return self.template.threads(config, limits)

    def computation(self, workload: W, config: Config) -> Any:
        return self.template.computation(self.form(workload), config)

    def schedule(self, workload: W, config: Config) -> Any:
        return self.template.schedule(self.form(workload), config)
