"""Both operators and their gradients by PyTorch alone, with a padding for each side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from tuner.errors import WrongArgument

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
    """Return ``torch.nn.functional.conv1d`` with ``padding`` zeros (before, behind).

    ``x`` may also be one signal (M,), if there is one kernel. Raises WrongArgument.
    """
    if x.ndim == 1:
        if weight.shape[0] != 1:
            raise WrongArgument(
                f"input has shape {tuple(x.shape)}, and must have (B, C, M) or (C, M), as the "
                f"weight has {weight.shape[0]} kernels"
            )
        return conv1d(x[None], weight, bias, stride, padding, dilation, groups)[0]
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
    """Return ``torch.nn.functional.conv2d`` with a group for each of the ``channels``.

    ``padding`` is the zeros (top, left, bottom, right).
    """
    top, left, bottom, right = padding
    around = (top, left)
    if around != (bottom, right):
        x, around = functional.pad(x, (left, right, top, bottom)), (0, 0)
    return functional.conv2d(
        x, weight, bias, stride=stride, padding=around, dilation=dilation, groups=channels
    )


def output_shape(
    x: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Return the shape that a convolution's output has. It has as many axes as ``x``.

    ``padding`` is the zeros before on each axis, then those behind on each. ``x`` may lack the axis
    of the batch or, if there is one channel and one kernel, that of the channels too.
    """
    axes = weight.ndim - 2
    lengths = [
        (size + before + behind - step * (taps - 1) - 1) // pace + 1
        for size, taps, pace, before, behind, step in zip(
            x.shape[-axes:], weight.shape[2:], stride, padding[:axes], padding[axes:], dilation,
            strict=False,
        )
    ]  # fmt: skip
    return (*x.shape[: -axes - 1], weight.shape[0], *lengths)[-x.ndim :]


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
    """Return the gradients of input and weight for ``g``, the gradient of the sums.

    ``wanted`` says which of the two are computed; the other is None. ``padding`` is the zeros
    before on each axis, then those behind on each. ``x`` and ``g`` may lack the axis of the batch
    and, if there is one channel and one kernel, that of the channels too.
    """
    axes = weight.ndim - 2
    missing = (0,) * (weight.ndim - x.ndim)
    for _ in missing:
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
    return (dx[missing] if wanted[0] and missing else dx), dw
