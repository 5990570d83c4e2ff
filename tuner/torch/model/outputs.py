"""What a model returns, and how much it differs from what it returned before."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from types import FunctionType, ModuleType
from typing import Any

import torch

_CLOSED = (torch.nn.Module, type, ModuleType, FunctionType, str, bytes)
"""What an output may hold that is no part of its value."""


def tensors(output: Any) -> list[torch.Tensor]:
    """Those in an output, in its order, in whatever it holds them: containers, or attributes of
    objects of any class. A number that is real is one."""
    found: list[torch.Tensor] = []
    left, seen = [output], dict[int, Any]()
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, float):
            found.append(torch.tensor(value, dtype=torch.float64, device="cpu"))
        elif not isinstance(value, _CLOSED) and id(value) not in seen:
            seen[id(value)] = value  # held, so that no other comes to have its id
            left += reversed(_parts(value))
    return found


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    slots = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
    own = list(getattr(value, "__dict__", {}).values())
    return own + [getattr(value, name, None) for name in slots]


def difference(before: Any, after: Any) -> float | None:
    """max|after - before| / max|before| over all tensors of real numbers. What is infinite or NaN
    in both is no difference, and largest is the largest finite one. None if there is none, or only
    zeros, or if the shapes differ: of a model that keeps what it was called with, say."""
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
