"""The choice between a kernel of the package and PyTorch, for each call."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from .library import library
from .reference import apply_epilogue, channels_last, match_layout, reference_convolution
from .table import Call, Kernel, find

log = logging.getLogger(__name__)
_DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, *settings: Any
) -> Tensor:
    """Return the output of a call, by a kernel if there is one for it, else by PyTorch.

    ``settings`` is stride, padding, dilation, groups, flipped and activation. In memory the
    output's channels come last if the input's do."""
    call = _call(x, weight, bias, residual, *settings)
    kernel = call and _kernel(call, x.device)
    if kernel is None or _would_load_in_a_graph(kernel, x):
        return match_layout(reference_convolution(x, weight, bias, residual, *settings), x)
    return match_layout(run_kernel(kernel, x, weight, bias, residual, settings[-1]), x)


def run_kernel(
    kernel: Kernel,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    activation: str,
) -> Tensor:
    """Return the kernel's output. If it was tuned without the bias, residual or activation, PyTorch
    adds them."""
    given = {"input": x, "weight": weight}
    if bias is not None and kernel.call.bias:
        given["bias"], bias = bias, None
    if residual is not None and kernel.call.residual:
        given["residual"], residual = residual, None
    left = "none" if kernel.call.activation == activation else activation
    return apply_epilogue(library(kernel)(**given), bias, residual, left)


def _call(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    flipped: bool,
    activation: str,
) -> Call | None:
    """Return the call that a kernel for these arguments would have to be tuned for.

    Return None if no kernel can take them, because they differ in dtype or device, have gaps in
    memory or do not fit each other. PyTorch then computes the output, or says what is wrong."""
    given = [each for each in (x, weight, bias, residual) if each is not None]
    alike = all((each.dtype, each.device) == (x.dtype, x.device) for each in given)
    dense = x.is_contiguous() or channels_last(x).is_contiguous()
    if not alike or not dense or x.dtype not in _DTYPES:
        return None
    if bias is not None and bias.shape != weight.shape[:1]:
        return None
    if residual is not None:
        ends = zip(padding, padding[x.ndim - 2 :], strict=False)
        spans = zip(weight.shape[2:], dilation, strict=True)
        lengths = [
            (length + sum(sides) - (taps - 1) * spread - 1) // step + 1
            for length, sides, (taps, spread), step in zip(
                x.shape[2:], ends, spans, stride, strict=True
            )
        ]
        if list(residual.shape) != [x.shape[0], weight.shape[0], *lengths]:
            return None
    return Call(
        input=tuple(x.shape),
        weight=tuple(weight.shape),
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=groups,
        flipped=flipped,
        channels_last=not x.is_contiguous(),
        dtype=_DTYPES[x.dtype],
        bias=bias is not None,
        residual=residual is not None,
        activation=activation,
    )


@lru_cache(4096)
def _kernel(call: Call, device: torch.device) -> Kernel | None:
    """Return the kernel that computes most of the call's epilogue, or None. A kernel for the whole
    call comes first, then one without the activation, then without the residual, then the bias."""
    less = [call]
    for absent in ({"activation": "none"}, {"residual": False}, {"bias": False}):
        less.append(less[-1]._replace(**absent))
    found = next(filter(None, (find(each, device) for each in less)), None)
    log.info("%s on %s is computed by %s", call, device, found.file if found else "PyTorch")
    return found


def _would_load_in_a_graph(kernel: Kernel, x: Tensor) -> bool:
    """Return whether a CUDA graph is being captured and the kernel has not run on the device yet.
    Its first call loads its code, which CUDA can't do during a capture."""
    if not x.is_cuda or x.device in library(kernel).ran_on:
        return False
    return torch.cuda.is_current_stream_capturing()
