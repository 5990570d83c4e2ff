"""The zeros on each side of a convolution's input, as PyTorch's modules and timm's have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Sides = tuple[int, int, int, int]
"""The zeros at the top, left, bottom and right of an image."""


def conv1d_padding(module: Any) -> tuple[int, int]:
    """Return a module's zeros before and behind. PyTorch's "same" has the odd one behind."""
    if module.padding == "valid":
        return (0, 0)
    if module.padding == "same":
        zeros = module.dilation[0] * (module.kernel_size[0] - 1)
        return (zeros // 2, zeros - zeros // 2)
    return (module.padding[0], module.padding[0])


def conv2d_padding(module: Any) -> Sides:
    """Return a module's padding. PyTorch's "same" has the odd zeros at the bottom and right."""
    if module.padding == "valid":
        return (0, 0, 0, 0)
    if module.padding == "same":
        steps = zip(module.dilation, module.kernel_size, strict=True)
        return _halved(*(step * (taps - 1) for step, taps in steps))
    height, width = module.padding
    return (height, width, height, width)


def same_padding(size: Sequence[int], kernel: Sequence[int], stride: int, dilation: int) -> Sides:
    """Return the padding with which the output of an image of any ``size`` is ceil(size / stride).

    It is that of timm's Conv2dSame and of TensorFlow's SAME.
    """
    pairs = zip(size, kernel, strict=True)
    return _halved(*(max(0, (taps - 1) * dilation - (n - 1) % stride) for n, taps in pairs))


def _halved(height: int, width: int) -> Sides:
    """Return so many zeros in each axis, the odd ones at the bottom and right."""
    return (height // 2, width // 2, height - height // 2, width - width // 2)
