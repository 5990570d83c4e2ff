"""The catalogue: operators by name and the templates that serve them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from templates.arithmetic import DIRECT, Arithmetic
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.errors import UnknownOperator, UnknownTemplate
from templates.workload import Workload

if TYPE_CHECKING:
    from templates.limits import DeviceLimits
    from templates.rung import Rung
    from templates.template import Template

    Templates = tuple[Template[Any], ...]
    Rungs = tuple[Rung, ...]


@dataclass(frozen=True)
class Operator:
    """What can be tuned: its name, the model of its workloads, the templates for them, and the
    rungs of its ladder. The last two are imported when they are asked for: whoever asks what a
    shape may be, as a shell that completes a line does, need not wait for them."""

    name: str
    workload: type[Workload]
    summary: str
    example: dict[str, object]
    catalogue: Callable[[], tuple[Templates, Rungs]]

    @cached_property
    def templates(self) -> Templates:
        return self.catalogue()[0]

    @cached_property
    def rungs(self) -> Rungs:
        return self.catalogue()[1]


def _conv1d() -> tuple[Templates, Rungs]:
    from templates.conv1d.catalogue import TEMPLATES
    from templates.conv1d.ladder import RUNGS

    return TEMPLATES, RUNGS


def _depthwise_conv2d() -> tuple[Templates, Rungs]:
    from templates.depthwise_conv2d.catalogue import TEMPLATES
    from templates.depthwise_conv2d.ladder import RUNGS

    return TEMPLATES, RUNGS


_OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            "conv1d",
            Conv1dWorkload,
            "1-D convolution or correlation, as numpy.convolve and numpy.correlate",
            {"M": 16384, "N": 32},
            _conv1d,
        ),
        Operator(
            "depthwise_conv2d",
            DepthwiseConv2dWorkload,
            "depthwise 2-D convolution, as PyTorch's conv2d with groups = C",
            {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7},
            _depthwise_conv2d,
        ),
    )
}


def operators() -> list[Operator]:
    return list(_OPERATORS.values())


def operator(name: str) -> Operator:
    if name not in _OPERATORS:
        raise UnknownOperator(name, sorted(_OPERATORS))
    return _OPERATORS[name]


def parse_key(key: str) -> Workload:
    """The workload of a canonical key (:attr:`Workload.key`)."""
    fields = json.loads(key)
    return operator(fields.pop("operator")).workload.model_validate(fields)


def templates_for(workload: Workload, limits: DeviceLimits) -> list[Template[Any]]:
    """The templates that can serve the workload on such a device."""
    return [t for t in operator(workload.operator).templates if t.applies(workload, limits)]


def template_names(name: str, kind: str = "auto") -> list[str]:
    """Those of an operator's templates for a kind of device; auto: for any."""
    found = (t.name for t in operator(name).templates if kind in ("auto", t.kind))
    return list(dict.fromkeys(found))


def restriction(
    names: Iterable[str] | None, operator_name: str, kind: str = "auto"
) -> tuple[str, ...] | None:
    """The templates that an order is restricted to, each once and sorted; None of None or of none.
    Raises UnknownTemplate if the operator lacks one of them for that kind of device."""
    asked = sorted(set(names or ()))
    known = template_names(operator_name, kind)
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise UnknownTemplate(unknown, operator_name, kind, known)
    return tuple(asked) or None


def arithmetic_of(name: str, kind: str, template: str) -> Arithmetic | None:
    """That of an operator's template for a kind of device; None for one of another release."""
    from templates.naive import NAME
    from templates.records.trace import Trace

    if template in (Trace.name, NAME):
        return DIRECT
    found = (t for t in operator(name).templates if (t.kind, t.name) == (kind, template))
    return next((each.arithmetic for each in found), None)
