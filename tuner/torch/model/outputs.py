"""The tensors in a model's output, and the difference of two outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import isnan
from types import FunctionType, ModuleType
from typing import Any

import torch

_CLOSED = (torch.nn.Module, type, ModuleType, FunctionType, str, bytes)
"""Types of objects that are not searched for tensors, because they are no part of an output's
value."""


def tensors(output: Any) -> list[torch.Tensor]:
    """Return the tensors in an output, in its order.

    They may be in mappings, lists, tuples, deques and sets, and in attributes of objects of any
    class. A float counts as a tensor of float64.
    """
    found: list[torch.Tensor] = []
    left, seen = [output], dict[int, Any]()
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, float):
            found.append(torch.tensor(value, dtype=torch.float64, device="cpu"))
        elif not isinstance(value, _CLOSED) and id(value) not in seen:
            seen[id(value)] = value  # held, so that no other object gets its id
            left += reversed(_parts(value))
    return found


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple | deque):
        return list(value)
    if isinstance(value, set | frozenset):  # in an order that the next call's set has, too
        return sorted(value, key=repr)
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    own = list(getattr(value, "__dict__", {}).values())
    return own + [getattr(value, name, None) for name in slots]


def _slots(kind: type) -> list[str]:
    """Return the attributes in a class's own slots. Python puts the class before private names."""
    names: Any = vars(kind).get("__slots__", ())
    private = f"_{kind.__name__.lstrip('_')}"
    return [
        f"{private}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in ([names] if isinstance(names, str) else names)
    ]


def difference(before: Any, after: Any) -> float | None:
    """Return max|after - before| / max|before| over all floating-point tensors of two outputs.

    Equal infinities and NaN in both are no difference, and max|before| is of finite elements.
    Return None if there are no such tensors, if ``before`` is all zeros, or if the shapes differ,
    for example if the model keeps what it was called with.
    """
    olds, news = _real(before), _real(after)
    if [each.shape for each in olds] != [each.shape for each in news]:
        return None
    finite = [each[each.isfinite()].abs() for each in olds]
    largest = max((float(each.max()) for each in finite if each.numel()), default=0.0)
    if not largest:
        return None
    apart = [
        float(torch.where(_same(new, old), 0.0, new - old).abs().max())
        for old, new in zip(olds, news, strict=True)
    ]
    return max(apart, key=lambda each: (isnan(each), each)) / largest


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.isclose(a, b, rtol=0, atol=0, equal_nan=True)


def _real(output: Any) -> list[torch.Tensor]:
    return [
        each.detach().double()
        for each in tensors(output)
        if each.is_floating_point() and each.numel() and not each.is_meta
    ]
