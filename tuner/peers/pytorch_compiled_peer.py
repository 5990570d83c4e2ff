"""PyTorch's convolutions compiled by ``torch.compile``, which fuses bias, residual and activation
into one kernel; and the sum of shifted signals, which it fuses into one kernel as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tuner.peers.epilogue import torch_epilogue
from tuner.peers.peer import Listing
from tuner.peers.pytorch_peer import (
    Form,
    PytorchPeer,
    bias_and_residual,
    channels_first,
    conv1d,
    depthwise_conv2d,
    listed,
    set_up_torch,
)

if TYPE_CHECKING:
    from torch import Tensor, memory_format

MOST_SHIFTS = 16
"""The most taps for which shifted signals are summed."""


def compiled(form: Form, name: str = "pytorch compiled") -> Form:
    """Return the form with its call compiled by ``torch.compile``, at the first call or, before it,
    by :func:`ahead`. PyTorch's own CUDA graphs are off, because the call is captured like those of
    other peers."""
    return replace(form, name=name, call=lambda *given: _compiled(form.call(*given)), ahead=ahead)


def _compiled(call: Callable[[], Tensor]) -> Callable[[], Tensor]:
    import torch
    from torch._inductor import config

    config.compile_threads = 1  # PyTorch's compiling processes would stay and disturb the round
    return torch.compile(call, fullgraph=True, dynamic=False, backend=_inductor)


class _Ahead(Exception):
    """Ends a call after it was compiled and before it is made. ``wanted`` is True during
    :func:`ahead`."""

    wanted = False


def ahead(call: Callable[[], Any]) -> None:
    """Compile a call that ``torch.compile`` returned, without making it: in the call cuDNN would
    search for its fastest algorithm."""
    _Ahead.wanted = True
    try:
        with suppress(_Ahead):
            call()
    finally:
        _Ahead.wanted = False


def _inductor(graph: Any, given: Sequence[Any]) -> Any:
    """Compile a graph by PyTorch's own backend, Inductor. During :func:`ahead` the result is
    wrapped, so that it can end before it runs. The wrapper costs no time, because only calls that
    are captured in a CUDA graph are compiled ahead."""
    from torch._inductor.compile_fx import compile_fx

    made: Any = compile_fx(graph, given)
    if not _Ahead.wanted:
        return made

    @wraps(made)
    def call(*arguments: Any) -> Any:
        if _Ahead.wanted:
            raise _Ahead
        return made(*arguments)

    return call


def sum_of_shifts(
    workload: Conv1dWorkload, _: memory_format, x: Tensor, w: Tensor, *added: Tensor
) -> Callable[[], Tensor]:
    """Return a call that multiplies the shifted signals by each tap and sums them in float32.

    People write this for few taps, to have it compiled. It stays in the workload's layout."""
    from torch.nn import functional

    channels_last = workload.layout == "NWC"
    signals = x if channels_last else channels_first(workload, x)
    ends = (0, 0, *workload.pads) if channels_last else workload.pads
    # an axis for the kernels of each channel, next to the axis of channels
    kernels_at = 3 if channels_last else 2
    place = (workload.C, workload.multiplier, *(() if channels_last else (1,)))
    kernels = w.reshape(workload.out_channels, workload.N)
    order = range(workload.N) if workload.kind == "correlate" else range(workload.N)[::-1]
    bias, residual = bias_and_residual(workload, added)
    finish = torch_epilogue(workload, residual)

    def call() -> Tensor:
        if workload.gated:  # channels last
            before, behind, signal = (part.float() for part in signals.chunk(3, dim=2))
            padded = functional.pad(before * signal, ends).unsqueeze(kernels_at)
        else:
            padded = functional.pad(signals, ends).unsqueeze(kernels_at)
        sums: Any = 0.0 if bias is None else bias.float().reshape(place)
        for number, tap in enumerate(order):
            first = number * workload.dilation
            end = first + (workload.length - 1) * workload.stride + 1
            reached = slice(first, end, workload.stride)
            shifted = padded[:, reached] if channels_last else padded[..., reached]
            sums = sums + kernels[:, tap].float().reshape(place) * shifted.float()
        y = finish(sums.reshape(workload.output.shape))
        return (y * behind if workload.gated else y).to(x.dtype)

    return call


def _conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[PytorchPeer]:
    if not set_up_torch(kind):
        return
    yield from listed(compiled(conv1d(workload)), workload, kind)
    if not workload.is_dense and workload.N <= MOST_SHIFTS:
        form = Form(sum_of_shifts, float16_on_cpu=1e9)
        yield from listed(compiled(form, "pytorch compiled shifts"), workload, kind)


def _depthwise_conv2d(workload: DepthwiseConv2dWorkload, kind: str) -> Iterator[PytorchPeer]:
    if set_up_torch(kind):
        yield from listed(compiled(depthwise_conv2d(workload)), workload, kind)


BY_OPERATOR: dict[str, Listing] = {"conv1d": _conv1d, "depthwise_conv2d": _depthwise_conv2d}
