"""The gradients of Dao-AILab's ``causal_conv1d`` on a GPU. The library computes all of them in one
call, so it is a peer for direction backward only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from templates.conv1d.workload import Conv1dWorkload
from tuner.peers import causal_conv1d_peer as forward
from tuner.peers.gradients.pytorch import conv1d_in_order
from tuner.peers.peer import Listing, Peer
from tuner.peers.pytorch_peer import Form

if TYPE_CHECKING:
    from torch import Tensor, memory_format

Backward = Callable[..., tuple[Any, ...]]
"""The library's function. It takes signals, kernels, bias, the output's gradient, four arguments
that are None here, whether the initial state needs a gradient, and whether there is a silu."""


def call(
    backward: Backward, workload: Conv1dWorkload, layout: memory_format, *given: Tensor
) -> Callable[[], tuple[Any, ...]]:
    """Return a call of the library's function. It computes the bias's gradient if it is given a
    bias."""
    x, gradient, w, *biases = given
    if workload.bias and not biases:
        biases = [w.new_zeros(workload.C)]  # without an activation its values do not matter
    signals = [forward.in_layout(workload, layout, each) for each in (x, gradient)]
    kernels = w.reshape(workload.C, workload.N)
    return partial(
        backward,
        signals[0],
        kernels.flip(1) if workload.kind == "convolve" else kernels,
        biases[0] if biases else None,
        signals[1],
        *[None] * 4,
        False,
        workload.activation == "silu",
    )


def _call(workload: Conv1dWorkload, layout: memory_format, *given: Tensor) -> Any:
    function = import_module("causal_conv1d.cpp_functions").causal_conv1d_bwd_function
    return call(function, workload, layout, *given)


def in_order(workload: Conv1dWorkload, found: Any) -> Any:
    """Return the library's gradients in the workload's order and layout. The last gradient, that of
    an initial state, is dropped."""
    return conv1d_in_order(workload, found[:3])


def _refusal(workload: Conv1dWorkload, layout: str) -> str | None:
    if workload.activation not in forward.WITHIN:
        return "the only activation that it supports is silu"
    return forward.own_refusal(workload, layout)


_FORM = Form(_call, name="causal_conv1d", to_workload_layout=in_order)


def _listed(workload: Conv1dWorkload, kind: str) -> Iterator[Peer]:
    if workload.direction == "backward":
        yield from forward.causal_peers("causal_conv1d", _FORM, _refusal, workload, kind)


BY_OPERATOR: dict[str, Listing] = {"conv1d": _listed}
