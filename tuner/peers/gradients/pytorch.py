"""PyTorch's gradients of convolutions, as its autograd calls them, in each layout that the operator
has. If there is an activation, they are also timed as compiled by ``torch.compile``, because the
activation's derivative is otherwise a separate kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.gradients import WithGradients
from tuner.peers.epilogue import activation_backward
from tuner.peers.peer import Listing
from tuner.peers.pytorch_compiled_peer import compiled
from tuner.peers.pytorch_peer import Form, PytorchPeer, channels_first, listed, set_up_torch

if TYPE_CHECKING:
    from torch import Tensor, memory_format

FLOAT16_ON_CPU = 2e7
"""Operations a second on a CPU that has no arithmetic for float16."""


def _conv1d(
    workload: Conv1dWorkload, layout: memory_format, *given: Tensor
) -> Callable[[], Tensor]:
    """Return the call for a conv1d's gradients. If channels come last, signals become images of
    one row, because PyTorch has no such layout for signals."""
    import torch

    images = layout is torch.channels_last
    ones, zeros = ((1,), (0, 0)) if images else ((), ())

    def in_layout(name: str, tensor: Tensor) -> Tensor:
        if name == "bias":
            return tensor
        if name != "weight":
            signals = channels_first(workload, tensor)
        else:
            taps = tensor.reshape(workload.out_channels, workload.summed, workload.N)
            signals = taps.flip(-1) if workload.kind == "convolve" else taps
        return (signals[:, :, None] if images else signals).contiguous(memory_format=layout)

    shapes = {
        "input": (workload.B, workload.C, *ones, workload.M),
        "weight": (workload.out_channels, workload.summed, *ones, workload.N),
    }
    steps = ((*ones, workload.stride), (*ones, workload.dilation))
    return _called(workload, in_layout, given, shapes, steps, (*workload.pads, *zeros), layout)


def _depthwise_conv2d(
    workload: DepthwiseConv2dWorkload, layout: memory_format, *given: Tensor
) -> Callable[[], Tensor]:
    to_nchw = workload.axes(range(4))

    def in_layout(name: str, tensor: Tensor) -> Tensor:
        planes = tensor if name == "weight" else tensor.permute(to_nchw)
        return planes.contiguous(memory_format=layout)

    shapes = {
        "input": (workload.B, workload.C, workload.H, workload.W),
        "weight": (workload.out_channels, 1, *workload.kernel),
    }
    steps = ((workload.stride,) * 2, (workload.dilation,) * 2)
    top, left, bottom, right = workload.pads
    return _called(workload, in_layout, given, shapes, steps, (left, right, top, bottom), layout)


def _called(
    workload: Any,
    in_layout: Callable[[str, Tensor], Tensor],
    given: Sequence[Tensor],
    shapes: Mapping[str, tuple[int, ...]],
    steps: tuple[tuple[int, ...], tuple[int, ...]],
    ends: tuple[int, ...],
    layout: memory_format,
) -> Callable[[], Any]:
    """Return a call that returns the gradients of input, weight and bias, None for each that the
    workload does not ask for. The bias's gradient is computed with the weight's.

    The results of the forward pass are made before the call and not timed: the sums, and the padded
    input if its sides differ. PyTorch needs the shape of an input or weight that is not
    given, so an empty tensor stands for it. ``shapes`` are those of input and weight in PyTorch's
    order, ``steps`` stride and dilation, and ``ends`` the padding as ``functional.pad`` takes it.
    """
    import torch
    from torch.nn import functional

    named = {name: given[0].new_empty(shape) for name, shape in shapes.items()}
    for argument, tensor in zip(workload.inputs, given, strict=True):
        named[argument.name] = in_layout(argument.name, tensor)
    sides = [ends[at : at + 2] for at in range(0, len(ends), 2)][::-1]
    cropped = any(before != behind for before, behind in sides)
    x = named["input"].contiguous(memory_format=layout)
    padded = (functional.pad(x, ends) if cropped else x).contiguous(memory_format=layout)
    of_input = workload.direction != "backward_weight"
    of_weight = workload.direction != "backward_input"
    how: dict[str, Any] = {
        "stride": steps[0],
        "padding": [0 if cropped else before for before, _ in sides],
        "dilation": steps[1],
        "transposed": False,
        "output_padding": [0] * len(sides),
        "groups": workload.C // shapes["weight"][1],
    }
    backward = partial(
        torch.ops.aten.convolution_backward,
        input=padded,
        weight=named["weight"],
        bias_sizes=[workload.out_channels],
        output_mask=[of_input, of_weight, of_weight and workload.bias],
        **how,
    )
    derived = activation_backward(workload)
    if of_input and of_weight and workload.activation != "none":
        bias = named.get("bias")
        named["sums"] = torch.ops.aten.convolution(padded, named["weight"], bias, **how)
    gradient, sums = named["output_gradient"], [named["sums"]] if "sums" in named else []

    def call() -> Any:
        dx, dw, db = backward(derived(gradient, *sums))
        if of_input and cropped:
            dx = functional.pad(dx, [-end for end in ends])
        return dx, dw, db

    return call


def conv1d_in_order(workload: Conv1dWorkload, found: Any) -> Any:
    """Return PyTorch's gradients of input, weight and bias as the outputs of the workload, in its
    layout."""
    dx, dw, db = found
    if dx is not None:
        signals = dx.reshape(workload.B, workload.C, workload.M)
        dx = signals.transpose(1, 2) if workload.layout == "NWC" else signals
    if dw is not None:
        taps = dw.reshape(workload.out_channels, workload.summed, workload.N)
        dw = taps.flip(-1) if workload.kind == "convolve" else taps
    if workload.direction == "backward":
        return (dx, dw, db) if workload.bias else (dx, dw)
    return dx if workload.direction == "backward_input" else _flat(workload, dw, db)


def _depthwise_in_order(workload: DepthwiseConv2dWorkload, found: Any) -> Any:
    dx, dw, db = found
    if workload.direction == "backward_input":
        return dx.permute(workload.place(0, 1, 2, 3))
    return _flat(workload, dw, db)


def _flat(workload: WithGradients, dw: Any, db: Any) -> Any:
    """Return the output of direction backward_weight: the weight's gradient, with the bias's behind
    it in one axis if there is a bias."""
    import torch

    return torch.cat([dw.reshape(-1), db]) if workload.bias else dw


def _of_conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[PytorchPeer]:
    layouts = ("",) if workload.is_one_signal else ("NCW", "NWC")
    form = Form(_conv1d, FLOAT16_ON_CPU, layouts, to_workload_layout=conv1d_in_order)
    yield from _each(form, workload, kind)


def _of_depthwise_conv2d(workload: DepthwiseConv2dWorkload, kind: str) -> Iterator[PytorchPeer]:
    form = Form(
        _depthwise_conv2d, FLOAT16_ON_CPU, ("NCHW", "NHWC"), to_workload_layout=_depthwise_in_order
    )
    yield from _each(form, workload, kind)


def _each(form: Form, workload: WithGradients, kind: str) -> Iterator[PytorchPeer]:
    if not set_up_torch(kind):
        return
    yield from listed(form, workload, kind)
    if workload.activation != "none":
        yield from listed(compiled(form), workload, kind)


BY_OPERATOR: dict[str, Listing] = {
    "conv1d": _of_conv1d,
    "depthwise_conv2d": _of_depthwise_conv2d,
}
