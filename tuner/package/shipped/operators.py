"""The package's functions as custom operators of PyTorch. Their namespace is the package's id, so
that several packages, and several versions of one, can be in a process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .dispatch import computed
from .plain import convolved, laid_out
from .table import ID

_SCHEMA = (
    "(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int[] stride, int[] padding, "
    "int[] dilation, int groups, bool flipped, str activation) -> Tensor"
)


def call(name: str, *arguments: Any) -> Tensor:
    """Return the operator's output. The kernel is looked up when the operator runs, not when
    ``torch.compile`` compiles a graph with it."""
    output: Tensor = getattr(getattr(torch.ops, ID), name)(*arguments)
    return output


def _described(x: Tensor, *others: Any) -> Tensor:
    """Return PyTorch's output in the operator's layout. ``torch.compile`` calls this with tensors
    that have no data, to know the shape, dtype and strides of the output."""
    return laid_out(convolved(x, *others), x)


def _differentiable(name: str) -> Any:
    def differentiable(*arguments: Any) -> Tensor:
        """Return the operator's output. If a derivative is needed (by ``requires_grad``, or by a
        tangent in forward mode), compute it by PyTorch, whose convolutions have derivatives."""
        given = [each for each in arguments if isinstance(each, Tensor)]
        if (torch.is_grad_enabled() and any(each.requires_grad for each in given)) or (
            forward_ad._current_level >= 0
            and any(forward_ad.unpack_dual(each).tangent is not None for each in given)
        ):
            return _described(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            return call(name, *arguments)

    return differentiable


def _defined(name: str) -> bool:
    """Return whether the operator exists: the same package may have been imported by another name
    or path."""
    return hasattr(getattr(torch.ops, ID), name)


_library = torch.library.Library(ID, "FRAGMENT")
for _name in ("conv1d", "depthwise_conv2d"):
    if not _defined(_name):
        _library.define(f"{_name}{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(_name, computed, "CompositeExplicitAutograd")
        _library.impl(_name, _differentiable(_name), "Autograd")
        torch.library.register_fake(f"{ID}::{_name}", _described, lib=_library)
