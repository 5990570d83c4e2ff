"""The package's functions computed by PyTorch alone, without a kernel of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda y: y,
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "hardswish": functional.hardswish,
}


def reference_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    flipped: bool,
    activation: str,
) -> Tensor:
    """Return PyTorch's output for an input (B, C, M) or (B, C, H, W). ``padding`` is the zeros
    before each axis, then those behind each axis."""
    axes = x.ndim - 2
    before, behind = list(padding[:axes]), list(padding[axes:])
    if before != behind:
        last_axis_first = [side for pair in zip(before, behind, strict=True) for side in pair[::-1]]
        x, before = functional.pad(x, last_axis_first[::-1]), [0] * axes
    if flipped:
        weight = weight.flip(*range(2, weight.ndim))
    convolution = functional.conv1d if axes == 1 else functional.conv2d
    y: Tensor = convolution(x, weight, bias, stride, before, dilation, groups)
    return apply_epilogue(y, None, residual, activation)


def apply_epilogue(
    y: Tensor, bias: Tensor | None, residual: Tensor | None, activation: str
) -> Tensor:
    """Return a convolution's sums ``y`` (B, F, …) after its epilogue: plus bias and residual,
    through the activation."""
    if bias is not None:
        y = y + bias.view(-1, *[1] * (y.ndim - 2))
    if residual is not None:
        y = y + residual
    return ACTIVATIONS[activation](y)


def channels_last(x: Tensor) -> Tensor:
    """Return a view of a tensor (B, C, …) as (B, …, C)."""
    return x.movedim(1, -1)


def match_layout(y: Tensor, x: Tensor) -> Tensor:
    """Return the output ``y``, with channels last in memory if those of the input ``x`` are."""
    if not x.is_contiguous() and channels_last(x).is_contiguous():
        return channels_last(y).contiguous().movedim(-1, 1)
    return y.contiguous()
