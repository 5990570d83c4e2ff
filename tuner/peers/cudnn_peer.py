"""cuDNN's causal convolution, called by its Python frontend on a GPU, on PyTorch's tensors.
PyTorch's own convolutions call cuDNN too, but not this function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from templates.conv1d.workload import Conv1dWorkload
from tuner.peers.causal_conv1d_peer import causal, causal_peers, refusal
from tuner.peers.peer import Listing
from tuner.peers.pytorch_peer import Form, signals_in_layout

if TYPE_CHECKING:
    from torch import Tensor, memory_format

TAPS = {"NCW": range(2, 257), "NWC": range(2, 129)}
"""Numbers of taps that cuDNN takes, by layout."""


def _call(workload: Conv1dWorkload, layout: memory_format, *given: Tensor) -> Callable[[], Tensor]:
    import torch

    bind = _channels_last if layout is torch.channels_last else _channels_first
    return causal(bind, workload, layout, *given)


def _channels_first(
    kernels: Tensor, bias: Tensor | None, activation: str
) -> Callable[[Tensor], Tensor]:
    function = import_module("cudnn").ops.causal_conv1d
    return partial(function, weight=kernels, **_end(kernels, bias, activation))


def _channels_last(
    kernels: Tensor, bias: Tensor | None, activation: str
) -> Callable[[Tensor], Tensor]:
    function = import_module("cudnn").ops.causal_conv1d_nwh
    call = partial(function, weight=kernels.T.contiguous(), **_end(kernels, bias, activation))
    return lambda signals: call(signals.transpose(1, 2)).transpose(1, 2)


def _end(kernels: Tensor, bias: Tensor | None, activation: str) -> dict[str, Any]:
    """Return the arguments for bias and activation. If there is no bias, zeros are passed, because
    the frontend would otherwise allocate and fill them in each call."""
    bias = kernels.new_zeros(len(kernels)) if bias is None else bias
    return {"bias": bias, "activation": "identity" if activation == "none" else activation}


def _refusal(workload: Conv1dWorkload, layout: str) -> str | None:
    return refusal(workload, TAPS[layout])


_FORM = Form(_call, name="cudnn", to_workload_layout=signals_in_layout)

BY_OPERATOR: dict[str, Listing] = {"conv1d": partial(causal_peers, "cudnn", _FORM, _refusal)}
