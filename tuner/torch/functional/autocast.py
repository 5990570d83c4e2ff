"""Casts of a convolution's tensors, as PyTorch's autocast makes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C import _functorch as functorch


def is_on(kind: str, *given: Tensor | None) -> bool:
    """Return whether autocast is on for this kind of device, "cpu" or "cuda", and casts the
    ``given`` tensors of a convolution.

    It does not cast tensors that ``torch.vmap`` maps, because PyTorch takes their convolution apart
    before autocast sees it.
    """
    on = bool(torch._C._is_any_autocast_enabled()) and torch.is_autocast_enabled(kind)
    return on and not _is_mapped(given)


def _is_mapped(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether the innermost transform of torch.func is vmap, and maps one of the tensors."""
    innermost = functorch.peek_interpreter_stack()
    if innermost is None or innermost.key() != functorch.TransformType.Vmap:
        return False
    return any(each is not None and functorch.is_batchedtensor(each) for each in tensors)


def cast(kind: str, *tensors: Tensor | None) -> list[Tensor | None]:
    """Return the tensors as autocast would cast them for a convolution.

    Floating-point tensors on this kind of device get autocast's dtype. Those in float64, those on
    other devices and None stay as they are.
    """
    dtype = torch.get_autocast_dtype(kind)
    return [
        each.to(dtype) if each is not None and _is_cast(each, kind) else each for each in tensors
    ]


def taken_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype in which a convolution would take this tensor.

    It is autocast's if that is on and applies, else the tensor's own.
    """
    kind = tensor.device.type
    cast_now = is_on(kind) and _is_cast(tensor, kind)
    return torch.get_autocast_dtype(kind) if cast_now else tensor.dtype


def _is_cast(tensor: Tensor, kind: str) -> bool:
    own = tensor.device.type == kind and tensor.is_floating_point()
    return own and tensor.dtype != torch.float64
