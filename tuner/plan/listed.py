"""The plan of a job that tries a list of configurations.

A list holds imported configurations, or the configuration that a neighbour lends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import templates
from db.records.listed import ListedConfig
from db.results.trials import NewTrial
from db.sql.choices import SKIPPED
from templates.errors import InvalidConfig
from templates.naive import naive_on
from templates.spaces.union import UnionSpace
from templates.template import Template
from templates.workload import Workload
from tuner.device.device import Device
from tuner.measure.versions import TVM
from tuner.plan.plan import Plan
from tuner.search import Strategy


class ListSearch(Strategy):
    """A strategy that proposes the indices in ``listed``, in order, and learns nothing."""

    name = "listed"
    listed: Sequence[int] = ()

    def propose(self, count: int) -> list[int]:
        return [index for index in self.listed if index not in self.seen][:count]


class ListedPlan(Plan):
    """A plan that tries the listed configurations that are in this device's space.

    ``refused`` holds the other listed configurations with the reasons: they are not in the space,
    or they are of another version of their template. ``among`` and ``others`` are as in
    :class:`Plan`, except that ``among=None`` takes all templates that apply.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        listed: Sequence[ListedConfig],
        among: Sequence[Template[Any]] | None,
        *,
        others: bool = True,
    ) -> None:
        if among is None:  # a list may also name templates that are not searched by default
            among = templates.templates_for(workload, device.limits)
        super().__init__(workload, device, "grid", None, among, others=others)
        if others:  # the naive schedule may have won on another machine, so a list may name it
            self.space = UnionSpace([*self._spaces.values(), naive_on(device.kind).space()])
        self.refused: list[tuple[ListedConfig, str]] = []
        indices: dict[int, None] = {}
        for each in listed:
            try:
                index = self.space.index(each.config)
            except InvalidConfig as error:
                self.refused.append((each, str(error)))
                continue
            version = self.version(each.config)
            if each.template_version == version:
                indices[index] = None
            else:
                reason = (
                    f"version: the configuration is for version {each.template_version} of the "
                    f"template, and this release has version {version}"
                )
                self.refused.append((each, reason))
        self.search = ListSearch(self.space, self._features, None)
        self.search.listed = list(indices)

    def skipped(self, device_id: int) -> list[NewTrial]:
        """Return the refused configurations as trials of status ``skipped``."""
        return [
            NewTrial(
                device_id=device_id,
                config=each.config,
                template=each.config["template"],
                template_version=each.template_version,
                tvm_version=TVM,
                status=SKIPPED,
                time_us=None,
                timing=None,
                max_error=None,
                error=reason,
                seconds={},
            )
            for each, reason in self.refused
        ]
