"""The zeros on each side of a convolution's input, as PyTorch's modules and timm's have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Sides = tuple[int, int, int, int]
"""The zeros at the top, left, bottom and right of an image."""


def conv1d_padding(module: Any, taps: int) -> tuple[int, int]:
    """Return a module's zeros before and behind."""
    if module.padding == "valid":
        return (0, 0)
    if module.padding == "same":
        return halved(module.dilation[0] * (taps - 1))
    return (module.padding[0], module.padding[0])


def conv2d_padding(module: Any) -> Sides | Literal["same"]:
    """Return a module's padding. PyTorch's "same", which takes a stride of 1, is TensorFlow's."""
    if module.padding == "valid":
        return (0, 0, 0, 0)
    if module.padding == "same":
        return "same"
    height, width = module.padding
    return (height, width, height, width)


def same_padding(size: Sequence[int], kernel: Sequence[int], stride: int, dilation: int) -> Sides:
    """Return the padding with which the output of an image of any ``size`` is ceil(size / stride).

    It is that of timm's Conv2dSame and of TensorFlow's SAME.
    """
    pairs = zip(size, kernel, strict=True)
    height, width = (halved(max(0, (taps - 1) * dilation - (n - 1) % stride)) for n, taps in pairs)
    return (height[0], width[0], height[1], width[1])


def halved(zeros: int) -> tuple[int, int]:
    """Return the zeros on the two sides of an axis, with an odd zero behind, as "same" has them."""
    return (zeros // 2, zeros - zeros // 2)
