"""The package's functions: PyTorch's convolutions, followed by a residual and an activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from . import operators
from .reference import ACTIVATIONS, reference_convolution

Numbers = int | Sequence[int]
_TENSOR_TYPES = (Tensor, torch.nn.Parameter)


def conv1d(
    input: Tensor,  # noqa: A002  # PyTorch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Numbers = 1,
    padding: Numbers | Literal["valid", "same"] = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    *,
    residual: Tensor | None = None,
    activation: str = "none",
    kind: Literal["correlate", "convolve"] = "correlate",
) -> Tensor:
    """Return ``activation(conv1d(…) + residual)``, with ``torch.nn.functional.conv1d``'s arguments.

    The input is (B, C, M) or (C, M), the weight (F, C / groups, N), the bias (F,), and the residual
    has the output's shape. ``padding`` may also be a pair: the zeros before and behind the signal.
    ``activation`` is none, relu, relu6, silu, gelu (the exact one) or hardswish. With ``kind``
    convolve the weight is flipped, as in ``numpy.convolve``. If a gradient is needed, PyTorch
    computes the call. Raise ValueError for arguments out of range, and what PyTorch raises."""
    if kind not in ("correlate", "convolve"):
        raise ValueError(f"kind is {kind!r}, and must be correlate or convolve")
    return _call_operator(
        "conv1d", 1, input, weight, bias, residual, stride, padding, dilation, groups,
        kind == "convolve", activation,
    )  # fmt: skip


def depthwise_conv2d(
    input: Tensor,  # noqa: A002  # PyTorch's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Numbers = 1,
    padding: Numbers | Literal["valid", "same"] = 0,
    dilation: Numbers = 1,
    *,
    residual: Tensor | None = None,
    activation: str = "none",
) -> Tensor:
    """Return ``activation(conv2d(…) + residual)``, with ``torch.nn.functional.conv2d``'s arguments.
    ``groups`` is the number of channels, C.

    The input is (B, C, H, W) or (C, H, W), the weight (C * multiplier, 1, KH, KW), the bias
    (C * multiplier,), and the residual has the output's shape. ``padding`` may also be four
    numbers: the zeros at the top, left, bottom and right. ``activation`` is as in :func:`conv1d`.
    If a gradient is needed, PyTorch computes the call. Raise ValueError for arguments out of range,
    and what PyTorch raises."""
    return _call_operator(
        "depthwise_conv2d", 2, input, weight, bias, residual, stride, padding, dilation,
        None, False, activation,
    )  # fmt: skip


def _call_operator(
    name: str,
    axes: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    stride: Numbers,
    padding: Numbers | str,
    dilation: Numbers,
    groups: int | None,
    flipped: bool,
    activation: str,
) -> Tensor:
    """Check the arguments, bring them into the operator's form (a batch, and lists of ``axes`` or
    2 * ``axes`` numbers) and call it. ``groups`` is None if each channel is a group."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}, and must be one of {[*ACTIVATIONS]}")
    if x.ndim not in (axes + 1, axes + 2) or weight.ndim != axes + 2:
        shapes = f"{tuple(x.shape)} and {tuple(weight.shape)}"
        raise ValueError(
            f"{name} takes an input of {axes + 1} or {axes + 2} axes and a weight of {axes + 2}, "
            f"but their shapes are {shapes}"
        )
    one = x.ndim == axes + 1
    if one:
        x, residual = x[None], None if residual is None else residual[None]
    steps, spread = _numbers("stride", stride, axes), _numbers("dilation", dilation, axes)
    reach = [(taps - 1) * step for taps, step in zip(weight.shape[2:], spread, strict=True)]
    sides = _padding(padding, axes, steps, reach)
    groups = x.shape[1] if groups is None else groups
    settings = (steps, sides, spread, groups, flipped, activation)
    given = [each for each in (x, weight, bias, residual) if each is not None]
    if torch.is_autocast_enabled(x.device.type) or any(
        type(each) not in _TENSOR_TYPES for each in given
    ):
        # only PyTorch knows in which dtype autocast computes, and what a subclass of Tensor does
        y = reference_convolution(x, weight, bias, residual, *settings)
    else:
        y = operators.call(name, x, weight, bias, residual, *settings)
    return y[0] if one else y


def _numbers(name: str, given: Numbers, count: int, also: Sequence[int] = ()) -> list[int]:
    """Return ``count`` numbers. A single number stands for all. If the argument may also have other
    counts of numbers, which the caller takes care of, an error names these ``also``."""
    found = [given] * count if isinstance(given, int) else list(given)
    if len(found) == 1:
        found *= count
    if len(found) != count:
        *few, most = sorted({1, count, *also})
        counts = f"{', '.join(map(str, few))} or {most} numbers" if few else "1 number"
        raise ValueError(f"{name} must be {counts}, but is {given}")
    return found


def _padding(given: Numbers | str, axes: int, stride: list[int], reach: Sequence[int]) -> list[int]:
    """Return the zeros before each axis, then those behind each axis. ``reach`` is how far the
    last tap is from the first along each axis."""
    if given == "valid":
        return [0] * (2 * axes)
    if given == "same":
        if any(step != 1 for step in stride):
            raise ValueError("padding 'same' is not supported for strided convolutions")
        return [each // 2 for each in reach] + [each - each // 2 for each in reach]
    if isinstance(given, str):
        raise ValueError(f"padding is {given!r}, and must be numbers, 'valid' or 'same'")
    if not isinstance(given, int) and len(given) == 2 * axes:
        return list(given)
    return _numbers("padding", given, axes, [2 * axes]) * 2
