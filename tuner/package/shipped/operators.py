"""The package's operators of PyTorch's. Their namespace is the package's own, so that several
packages, and several versions of one, can be in a process."""

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
    """The operator's output. It is looked for a kernel when it runs, not when a graph of it is
    compiled."""
    output: Tensor = getattr(getattr(torch.ops, ID), name)(*arguments)
    return output


def _described(x: Tensor, *others: Any) -> Tensor:
    """Shape, dtype and strides of the output, for tensors without data."""
    return laid_out(convolved(x, *others), x)


def _differentiable(name: str) -> Any:
    def differentiable(*arguments: Any) -> Tensor:
        """PyTorch's convolution, which has derivatives, if there is something to derive by."""
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
    """Whether the same package is in this process already, by another name or path."""
    return hasattr(getattr(torch.ops, ID), name)


_library = torch.library.Library(ID, "FRAGMENT")
for _name in ("conv1d", "depthwise_conv2d"):
    if not _defined(_name):
        _library.define(f"{_name}{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(_name, computed, "CompositeExplicitAutograd")
        _library.impl(_name, _differentiable(_name), "Autograd")
        torch.library.register_fake(f"{ID}::{_name}", _described, lib=_library)
