"""Dao-AILab's ``causal_conv1d``, on a GPU: a short causal kernel for each channel, as state space
models have it. It takes signals as PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from templates.conv1d.workload import Conv1dWorkload
from tuner.peers.epilogue import in_torch
from tuner.peers.peer import Broken, Listing, NotServed, Peer, installed
from tuner.peers.pytorch_peer import (
    Form,
    PytorchPeer,
    bias_and_residual,
    channels_first,
    ready,
    signals_in_layout,
)

if TYPE_CHECKING:
    from torch import Tensor, memory_format

TAPS = range(2, 5)
CHANNELS_AT_ONCE = 8
"""Of which the channels must be a multiple if they are last."""
WITHIN = ("none", "silu")
"""Activations that such a library computes in its kernel."""

Bind = Callable[["Tensor", "Tensor | None", str], Callable[["Tensor"], "Tensor"]]
"""Given kernels (C, N), bias (C,) or None and an activation, a library's function of signals
(B, C, M)."""
Refusal = Callable[[Conv1dWorkload, str], str | None]
"""Why a library does not take a workload in a layout, None if it does."""


def offered(
    package: str, form: Form, refusal: Refusal, workload: Conv1dWorkload, kind: str
) -> Iterator[Peer]:
    """Both layouts of a library for causal convolutions with kernels of each channel, if it is
    here. What else it refuses of these is there as :class:`Broken`."""
    if kind != "cuda" or workload.mode != "causal" or workload.is_dense:
        return
    if not installed(package) or not ready(kind):
        return
    for layout in ("NCW", "NWC"):
        why = refusal(workload, layout)
        if why is None:
            yield PytorchPeer(form, workload, kind, layout)
        else:
            yield Broken(f"{form.name} {layout}", NotServed(why))


def refusal(workload: Conv1dWorkload, taps: range) -> str | None:
    """Why a library that takes so many taps does not take it."""
    if (workload.stride, workload.dilation) != (1, 1):
        return "it knows neither stride nor dilation"
    if workload.multiplier != 1:
        return "it has one kernel for each channel"
    if workload.N not in taps:
        return f"it takes {taps[0]} to {taps[-1]} taps"
    return None


def causal(
    bind: Bind,
    workload: Conv1dWorkload,
    layout: memory_format,
    x: Tensor,
    w: Tensor,
    *added: Tensor,
) -> Callable[[], Tensor]:
    """The call of a library's function, which may end with a bias and one of the activations
    WITHIN; what else there is at the end follows in PyTorch."""
    bias, residual = bias_and_residual(workload, added)
    is_within = residual is None and workload.activation in WITHIN
    kernels = w.reshape(workload.C, workload.N)
    convolve = bind(
        kernels.flip(1) if workload.kind == "convolve" else kernels,
        bias,
        workload.activation if is_within else "none",
    )
    signals = laid_out(workload, layout, x)
    if is_within:
        return lambda: convolve(signals)
    if residual is not None:
        residual = laid_out(workload, layout, residual)
    finish = in_torch(workload, residual)
    return lambda: finish(convolve(signals))


def laid_out(workload: Conv1dWorkload, layout: memory_format, tensor: Tensor) -> Tensor:
    """Signals (B, C, M), which lie in that order or with their channels last."""
    import torch

    signals = channels_first(workload, tensor)
    if layout is torch.channels_last:
        return signals.transpose(1, 2).contiguous().transpose(1, 2)
    return signals.contiguous()


def _bind(kernels: Tensor, bias: Tensor | None, activation: str) -> Callable[[Tensor], Tensor]:
    function = import_module("causal_conv1d").causal_conv1d_fn
    named = None if activation == "none" else activation
    return partial(function, weight=kernels, bias=bias, activation=named)


def own_refusal(workload: Conv1dWorkload, layout: str) -> str | None:
    """The same of this one, which has other terms if channels are last."""
    if layout == "NWC" and workload.C % CHANNELS_AT_ONCE:
        return f"channels last it takes multiples of {CHANNELS_AT_ONCE} channels"
    return refusal(workload, TAPS)


_FORM = Form(partial(causal, _bind), name="causal_conv1d", ordered=signals_in_layout)

BY_OPERATOR: dict[str, Listing] = {
    "conv1d": partial(offered, "causal_conv1d", _FORM, own_refusal),
}
