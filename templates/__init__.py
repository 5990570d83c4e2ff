"""Catalogue of the operators by name, and of the templates that serve their workloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from templates import conv1d, depthwise_conv2d
from templates.arithmetic import DIRECT, Arithmetic
from templates.errors import UnknownOperator, UnknownTemplate
from templates.operator import Operator as Operator
from templates.workload import Workload

if TYPE_CHECKING:
    from templates.limits import DeviceLimits
    from templates.template import Template

_DECLARED: tuple[Operator, ...] = (conv1d.OPERATOR, depthwise_conv2d.OPERATOR)
_KEY = TypeAdapter(dict[str, Any])
_OPERATORS = {each.name: each for each in _DECLARED}


def operators() -> list[Operator]:
    """Return all operators, in the order in which they are declared."""
    return list(_OPERATORS.values())


def operator(name: str) -> Operator:
    """Return the operator of this name. Raise UnknownOperator if there is none."""
    if name not in _OPERATORS:
        raise UnknownOperator(name, sorted(_OPERATORS))
    return _OPERATORS[name]


def parse_key(key: str) -> Workload:
    """Return the workload of a canonical key (:attr:`Workload.key`).

    Raise UnknownOperator or pydantic's ValidationError if the key is not one of this release.
    """
    fields = _KEY.validate_json(key)
    return operator(str(fields.pop("operator", ""))).workload.model_validate(fields)


def templates_for(workload: Workload, limits: DeviceLimits) -> list[Template[Any]]:
    """Return the templates that can serve the workload on a device with these limits.

    Forward templates that serve a gradient come wrapped in ``AsForward``. If the workload
    :attr:`must be transformed <Workload.must_transform>`, only templates that sum by FFT are
    returned.
    """
    from templates.as_forward import adapt

    known = operator(workload.operator).templates
    asked = (
        t
        for t in known
        if not (workload.is_forward and t.computes_gradients)
        and t.takes_gates == bool(workload.gate_channels)
    )
    found = [t for t in (adapt(each, workload) for each in asked) if t.applies(workload, limits)]
    return [t for t in found if t.arithmetic.kind == "fft" or not workload.must_transform]


def template_names(name: str, kind: str = "auto") -> list[str]:
    """Return the names of an operator's templates for a kind of device, each once.

    "auto" means any kind.
    """
    found = (t.name for t in operator(name).templates if kind in ("auto", t.kind))
    return list(dict.fromkeys(found))


def restriction(
    names: Iterable[str] | None, operator_name: str, kind: str = "auto"
) -> tuple[str, ...] | None:
    """Return the templates that an order is restricted to, each once and sorted.

    Return None if ``names`` is None or empty: the order is not restricted. Raise UnknownTemplate if
    the operator lacks one of them for that kind of device.
    """
    asked = sorted(set(names or ()))
    known = template_names(operator_name, kind)
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise UnknownTemplate(unknown, operator_name, kind, known)
    return tuple(asked) or None


def only_kind(names: Iterable[str] | None, operator_name: str) -> str | None:
    """Return the only kind of device for which the operator has templates of these names.

    Return None if there are several kinds or no names.
    """
    asked = set(names or ())
    kinds = {each.kind for each in operator(operator_name).templates if each.name in asked}
    return kinds.pop() if len(kinds) == 1 else None


def arithmetic_of(name: str, kind: str, template: str) -> Arithmetic | None:
    """Return the arithmetic of an operator's template for a kind of device.

    The naive schedule and traces sum directly. Return None if this release has no such template: a
    best from another release may name one.
    """
    from templates.naive import NAME
    from templates.records.trace import Trace

    if template in (Trace.name, NAME):
        return DIRECT
    found = (t for t in operator(name).templates if (t.kind, t.name) == (kind, template))
    return next((each.arithmetic for each in found), None)
