"""Both operators by PyTorch alone, with padding of each side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
