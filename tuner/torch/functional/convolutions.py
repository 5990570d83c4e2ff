"""Both operators and their gradients by PyTorch alone, with padding of each side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

Steps = int | Sequence[int]


def conv1d(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Steps,
    padding: Sequence[int],
    dilation: Steps,
    groups: int,
) -> Any:
    """``padding`` are the zeros before and behind."""
    before, behind = padding
    if before != behind:
        x, before = functional.pad(x, (before, behind)), 0
    return functional.conv1d(
        x, weight, bias, stride=stride, padding=before, dilation=dilation, groups=groups
    )


def depthwise_conv2d(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Steps,
    padding: Sequence[int],
    dilation: Steps,
    channels: int,
) -> Any:
    """``padding`` is at the top, left, bottom and right."""
    top, left, bottom, right = padding
    around = (top, left)
    if around != (bottom, right):
        x, around = functional.pad(x, (left, right, top, bottom)), (0, 0)
    return functional.conv2d(
        x, weight, bias, stride=stride, padding=around, dilation=dilation, groups=channels
    )


def gradients(
    g: Any,
    x: Any,
    weight: Any,
    stride: int,
    padding: Sequence[int],
    dilation: int,
    groups: int,
    wanted: tuple[bool, bool],
) -> tuple[Any, Any]:
    """Of input and weight, those that are wanted, for that of the sums. ``padding`` is before on
    each axis, then behind."""
    axes = weight.ndim - 2
    one = x.ndim < weight.ndim
    if one:
        g, x = g[None], x[None]
    before, behind = padding[:axes], padding[axes:]
    ends = [end for pair in zip(before, behind, strict=True) for end in pair]
    ends = [end for at in range(2 * axes - 2, -1, -2) for end in ends[at : at + 2]]
    uneven = before != behind
    dx, dw, _ = torch.ops.aten.convolution_backward(
        g,
        functional.pad(x, ends) if uneven else x,
        weight,
        None,
        [stride] * axes,
        [0] * axes if uneven else before,
        [dilation] * axes,
        False,
        [0] * axes,
        groups,
        [*wanted, False],
    )
    if uneven and wanted[0]:
        dx = functional.pad(dx, [-end for end in ends])
    return (dx[0] if one and wanted[0] else dx), dw
