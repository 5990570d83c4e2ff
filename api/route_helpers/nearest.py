"""The search for the closest tuned shape whose configuration is valid for the requested one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from db.contract.order import PREDICTED, JobOrder
from db.records.listed import NEIGHBOUR, ListedConfig, ListedOrder
from db.results.best import Best
from templates import operator as find_operator
from templates import templates_for
from templates.errors import TemplateError
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.workload import Workload, is_extent

UNSEARCHED = (NEIGHBOUR, PREDICTED)
"""The searches of jobs that only verify a configuration. Their bests lend nothing."""


def nearest_bests(workload: Workload, candidates: Iterable[Best]) -> list[Best]:
    """Return the bests of the closest workload whose configuration is valid for this one.

    They are sorted fastest first; the list is empty if there is no such workload. Of equally close
    workloads, the one with the faster best counts."""
    spaces = _Spaces(workload)
    ranked = sorted(
        ((distance(workload, best), best.time_us, best.id, best) for best in candidates),
        key=lambda entry: entry[:3],
    )
    reachable = [best for far, _, _, best in ranked if math.isfinite(far)]
    first = next((best for best in reachable if spaces.contain(best)), None)
    if first is None:
        return []
    same = (best for best in reachable if best.workload_key == first.workload_key)
    return [best for best in same if best is first or spaces.contain(best)]


def verification_order(
    workload: Workload,
    lender: Best,
    templates: tuple[str, ...] | None = None,
    for_device: str | None = None,
) -> ListedOrder:
    """Return the order to build, check and time the lender's configuration for this workload.

    ``templates`` and ``for_device`` are those that the user asked for. None: any."""
    source = {
        "workload": lender.workload,
        "time_us": lender.time_us,
        "device": lender.device.name,
        "job": lender.job_id,
    }
    order = JobOrder.of(
        workload,
        target=lender.device.kind,
        search=NEIGHBOUR,
        templates=templates,
        for_device=for_device,
    )
    return ListedOrder(order, [ListedConfig(lender.config, lender.template_version, source)])


def distance(workload: Workload, best: Best) -> float:
    """Return the Euclidean distance between a workload and a best's, on log2 of the extents.

    It is infinite if anything but the extents differs, or if the best was allowed a larger error.
    """
    fields = type(workload).model_fields.items()
    defaults = find_operator(workload.operator).defaults_of_added_fields
    asked, there = (defaults | json.loads(key) for key in (workload.key, best.workload_key))
    if set(asked) != set(there):  # a field that one of the two releases lacks
        return math.inf
    extents = [
        name
        for name, field in fields
        if is_extent(field.annotation) and asked[name] is not None and there[name] is not None
    ]
    fixed = set(asked) - {*extents, "max_error"}
    if any(asked[name] != there[name] for name in fixed) or there["max_error"] > asked["max_error"]:
        return math.inf
    return math.hypot(*(math.log2(asked[name] / there[name]) for name in extents))


class _Spaces:
    """The spaces of the requested workload, each built once for a template and a device."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._built: dict[tuple[int, str], ConfigSpace | None] = {}

    def contain(self, best: Best) -> bool:
        """Return whether the best's configuration is valid for the workload on the same device."""
        place = (best.device.id, best.template)
        if place not in self._built:
            self._built[place] = self._build(best)
        space = self._built[place]
        return space is not None and space.version == best.template_version and best.config in space

    def _build(self, best: Best) -> ConfigSpace | None:
        """Return the space of the best's template on its device; None if it does not apply."""
        try:
            limits = DeviceLimits.from_json(best.device.limits)
            applying = templates_for(self._workload, limits)
            named = (each for each in applying if each.name == best.template)
            found = next(named, None)
            return None if found is None else found.space(self._workload, limits)
        except (TemplateError, TypeError):  # of another release, which lacks a template or a limit
            return None
