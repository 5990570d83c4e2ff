"""What autocast does to the tensors of a convolution."""

from __future__ import annotations

import torch
from torch import Tensor


def is_on(kind: str) -> bool:
    """Whether it is, for that kind of device."""
    return bool(torch._C._is_any_autocast_enabled()) and torch.is_autocast_enabled(kind)


def cast(kind: str, *tensors: Tensor | None) -> list[Tensor | None]:
    """In the dtype that it chose, as it casts what PyTorch's convolutions are given: real numbers
    on its device, but those of double precision."""
    dtype = torch.get_autocast_dtype(kind)
    return [
        each.to(dtype) if each is not None and _is_cast(each, kind) else each for each in tensors
    ]


def taken_dtype(tensor: Tensor) -> torch.dtype:
    """That in which a convolution takes the tensor now."""
    kind = tensor.device.type
    cast_now = is_on(kind) and _is_cast(tensor, kind)
    return torch.get_autocast_dtype(kind) if cast_now else tensor.dtype


def _is_cast(tensor: Tensor, kind: str) -> bool:
    own = tensor.device.type == kind and tensor.is_floating_point()
    return own and tensor.dtype != torch.float64
