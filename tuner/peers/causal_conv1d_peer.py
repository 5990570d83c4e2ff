"""Dao-AILab's ``causal_conv1d`` on a GPU, on PyTorch's tensors: a causal convolution with a short
kernel for each channel, as in state space models. cuDNN's peer shares most of this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from templates.conv1d.workload import Conv1dWorkload
from tuner.peers.epilogue import torch_epilogue
from tuner.peers.peer import Broken, Listing, NotServed, Peer, installed
from tuner.peers.pytorch_peer import (
    Form,
    PytorchPeer,
    bias_and_residual,
    channels_first,
    set_up_torch,
    signals_in_layout,
)

if TYPE_CHECKING:
    from torch import Tensor, memory_format

TAPS = range(2, 5)
"""Numbers of taps that ``causal_conv1d`` takes."""
CHANNELS_AT_ONCE = 8
"""If the channels come last, their number must be a multiple of this."""
WITHIN = ("none", "silu")
"""Activations that ``causal_conv1d`` and cuDNN compute in their kernels."""

Bind = Callable[["Tensor", "Tensor | None", str], Callable[["Tensor"], "Tensor"]]
"""A function that is given kernels (C, N), a bias (C,) or None and an activation, and returns a
library's function of signals (B, C, M)."""
Refusal = Callable[[Conv1dWorkload, str], str | None]
"""A function that returns why a library refuses a workload in a layout, or None if it does not."""


def causal_peers(
    package: str, form: Form, refusal: Refusal, workload: Conv1dWorkload, kind: str
) -> Iterator[Peer]:
    """Yield a peer for each layout of a library that convolves causally, with kernels for each
    channel.

    Yield nothing if the workload is of another form or has gates, or if there is no GPU or library.
    A layout that the library refuses is yielded as :class:`Broken`, with the reason."""
    if kind != "cuda" or workload.mode != "causal" or workload.is_dense or workload.gated:
        return
    if not installed(package) or not set_up_torch(kind):
        return
    for layout in ("NCW", "NWC"):
        why = refusal(workload, layout)
        if why is None:
            yield PytorchPeer(form, workload, kind, layout)
        else:
            yield Broken(f"{form.name} {layout}", NotServed(why))


def refusal(workload: Conv1dWorkload, taps: range) -> str | None:
    """Return why a library refuses the workload, or None if it does not. ``taps`` are the numbers
    of taps that it takes."""
    if (workload.stride, workload.dilation) != (1, 1):
        return "it supports neither stride nor dilation"
    if workload.multiplier != 1:
        return "it supports only one kernel for each channel"
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
    """Return a call of the function that ``bind`` returns, for a workload in a layout.

    The library adds the bias, and applies an activation of WITHIN if no residual comes before it.
    PyTorch computes the rest of the epilogue."""
    bias, residual = bias_and_residual(workload, added)
    is_within = residual is None and workload.activation in WITHIN
    kernels = w.reshape(workload.C, workload.N)
    convolve = bind(
        kernels.flip(1) if workload.kind == "convolve" else kernels,
        bias,
        workload.activation if is_within else "none",
    )
    signals = in_layout(workload, layout, x)
    if is_within:
        return lambda: convolve(signals)
    if residual is not None:
        residual = in_layout(workload, layout, residual)
    finish = torch_epilogue(workload, residual)
    return lambda: finish(convolve(signals))


def in_layout(workload: Conv1dWorkload, layout: memory_format, tensor: Tensor) -> Tensor:
    """Return signals (B, C, M) that lie in memory in that order, or with their channels last if
    ``layout`` says so."""
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
    """Return why ``causal_conv1d`` refuses the workload in a layout, or None if it does not."""
    if layout == "NWC" and workload.C % CHANNELS_AT_ONCE:
        return f"channels last, it takes only multiples of {CHANNELS_AT_ONCE} channels"
    return refusal(workload, TAPS)


_FORM = Form(partial(causal, _bind), name="causal_conv1d", to_workload_layout=signals_in_layout)

BY_OPERATOR: dict[str, Listing] = {
    "conv1d": partial(causal_peers, "causal_conv1d", _FORM, own_refusal),
}
