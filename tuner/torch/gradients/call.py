"""Gradients of a layer's call: each by a tuned kernel if there is one, else by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch._C import _functorch as functorch

from templates.argument import Argument
from templates.epilogue import Activation
from tuner.library.load import Library
from tuner.torch.functional import activations
from tuner.torch.lookup.workload_lookup import Purpose
from tuner.torch.pytorch_only import not_none, why_pytorch


class PerTensor(NamedTuple):
    """One value for each tensor of a call: its gradient, or a flag whether that is needed."""

    input: Any
    weight: Any
    bias: Any
    residual: Any


class Saved(NamedTuple):
    """The tensors of a call that its gradients need.

    ``output`` is None unless the activation's derivative can be told from it.
    """

    input: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None
    output: Tensor | None


class Layer(Protocol):
    """A layer, as its gradients need it."""

    activation: Activation
    used_backward: dict[str, str]

    @property
    def AXES(self) -> int:  # noqa: N802
        """The number of axes along which it convolves."""

    @property
    def ORDERS(self) -> Any:  # noqa: N802
        """The orders of axes by layout, as in :attr:`Tuned.ORDERS`."""

    def gradient_library(self, x: Tensor, weight: Tensor, purpose: Purpose) -> Library | None:
        """Return the tuned kernel for that purpose, or None."""

    def sums(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None
    ) -> Tensor:
        """Return the output before the activation."""

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor: ...

    def differentiated(
        self, g: Tensor, x: Tensor, weight: Tensor, wanted: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        """Return gradients of input and weight, those that are ``wanted``, by PyTorch alone."""

    def as_library_view(self, x: Any, argument: Argument) -> Any:
        """Return a view of a tensor as a library takes it."""

    def in_layout_of(self, y: Tensor, x: Tensor) -> Tensor: ...


Compute = Callable[[Tensor, Saved, PerTensor], PerTensor]
Forward = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


class Calls(NamedTuple):
    """The functions that compute a call and its gradients.

    ``backward`` computes gradients that need no derivatives, and ``by_pytorch`` those that do.
    """

    activation: Activation
    forward: Forward
    backward: Compute
    by_pytorch: Compute


class Differentiated(torch.autograd.Function):
    """A call with the gradients that its :class:`Calls` compute.

    It saves input and weight. For an activation it also saves what the derivative is computed from:
    the output, or the bias and residual with which the sums are computed again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        calls: Calls,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        residual: Tensor | None,
    ) -> Tensor:
        given = [None if each is None else each.detach() for each in (x, weight, bias, residual)]
        # .data is no view, so later operations may write into it
        output = calls.forward(*given).data  # type: ignore[arg-type]
        told = activations.of_output(calls.activation)
        again = activations.of_sums(calls.activation)
        ctx.calls = calls
        ctx.save_for_backward(
            x, weight, bias if again else None, residual if again else None,
            output if told else None,
        )  # fmt: skip
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        needed = PerTensor(*ctx.needs_input_grad[1:])
        compute = ctx.calls.by_pytorch if torch.is_grad_enabled() else ctx.calls.backward
        return None, *compute(grad, Saved(*ctx.saved_tensors), needed)


class _Call:
    """The gradients of one call, by the layer's kernels if ``tuned``, else by PyTorch."""

    def __init__(self, layer: Layer, grad: Tensor, saved: Saved, tuned: bool) -> None:
        self._layer, self._grad, self._saved, self._tuned = layer, grad, saved, tuned

    @cached_property
    def sums(self) -> Tensor:
        """The output before the activation, or the output itself if it was saved."""
        x, weight, bias, residual, output = self._saved
        if output is not None:
            return output
        if self._tuned:
            return self._layer.sums(x, weight, bias, residual)
        y = self._layer.convolved(x, weight, bias)
        return y if residual is None else y + residual

    @cached_property
    def derived(self) -> Tensor:
        """The gradient of the sums."""
        activation = self._layer.activation
        if activation == "none":
            return self._grad
        return activations.derived(activation, self._grad, self.sums)

    def by_kernel(self, purpose: Purpose) -> tuple[Library, Any] | None:
        """Return the kernel for that purpose and what it gives, or None if there is none."""
        layer, (x, weight, bias, residual, _) = self._layer, self._saved
        if not self._tuned:
            return None
        library = layer.gradient_library(x, weight, purpose)
        if library is None:
            return None
        work: Any = library.workload
        activated = work.activation != "none"
        if activated and purpose == "backward" and residual is not None:
            return None  # the kernel would compute the sums without the residual
        named: dict[str, Any] = {"input": x, "weight": weight, "bias": bias}
        named["output_gradient"] = self._grad if activated else self.derived
        if activated and purpose != "backward":
            named["sums"] = self.sums
        given = [
            named[argument.name].view(argument.shape)
            if argument.role in ("weight", "bias")
            else layer.as_library_view(named[argument.name], argument)
            for argument in library.workload.inputs
        ]
        return library, library.of_tensors(*given)


def compute_gradients(
    layer: Layer, grad: Tensor, saved: Saved, needed: PerTensor, tuned: bool = True
) -> PerTensor:
    """Return the gradients that are needed, and None for the others.

    If ``tuned``, kernels compute those that they can. Sets the layer's ``used_backward``.
    """
    x, weight = saved.input, saved.weight
    # torch.autograd.grad with is_grads_batched, which shows nowhere else
    several_at_once = functorch.is_legacy_batchedtensor(grad)
    if several_at_once or why_pytorch(x, weight, grad, saved.bias) is not None:
        tuned = False
    if tuned:  # kernels take all in one layout; a residual or PyTorch's output may have another
        grad, saved = layer.in_layout_of(grad, x), _in_layout(layer, saved)
    call = _Call(layer, grad, saved, tuned)
    dx = dw = db = None
    if needed.input and needed.weight and (found := call.by_kernel("backward")) is not None:
        library, (dx, dw, *biases) = found
        orders = layer.ORDERS.get(library.workload.outputs[0].layout)
        dx = dx.view(x.shape) if orders is None else dx.permute(orders[1])
        dw = dw.view(weight.shape)
        db = biases[0] if biases and needed.bias else None
    if needed.input and dx is None and (found := call.by_kernel("backward_input")) is not None:
        library, y = found
        orders = layer.ORDERS.get(library.arguments[-1].layout)
        dx = y.view(x.shape) if orders is None else y.permute(orders[1])
    if needed.weight and dw is None and (found := call.by_kernel("backward_weight")) is not None:
        library, y = found
        dw = y.view(-1)[: weight.numel()].view(weight.shape)
        work: Any = library.workload
        if work.bias and needed.bias:
            db = y[weight.numel() :]
    rest = (needed.input and dx is None, needed.weight and dw is None)
    used = {
        name: "pytorch" if left else "tuned"
        for name, is_needed, left in zip(("input", "weight"), needed, rest, strict=False)
        if is_needed
    }
    if layer.used_backward != used:  # to set a module's attribute takes long
        layer.used_backward = used
    if any(rest):
        by_pytorch = layer.differentiated(call.derived, x, weight, rest)
        dx = by_pytorch[0] if rest[0] else dx
        dw = by_pytorch[1] if rest[1] else dw
    if needed.bias and db is None:
        channels = call.derived.ndim - layer.AXES - 1
        db = call.derived.sum([at for at in range(call.derived.ndim) if at != channels]).view(-1)
    return PerTensor(dx, dw, db, call.derived if needed.residual else None)


def _in_layout(layer: Layer, saved: Saved) -> Saved:
    """Return what was saved, with residual and output in the layout of the input."""
    output, residual = (
        None if each is None else layer.in_layout_of(each, saved.input)
        for each in (saved.output, saved.residual)
    )
    return saved._replace(output=output, residual=residual)


def operator_outputs(layer: Layer, found: PerTensor, grad: Tensor, x: Tensor) -> list[Tensor]:
    """Return the gradients that are not None, as an operator must return them.

    They have the strides that :func:`fake_gradients` gives, and share memory with no other tensor.
    """
    dx, dw, db, dr = found
    ordered = [
        None if dx is None else layer.in_layout_of(dx, x),
        None if dw is None else dw.contiguous(),
        None if db is None else db.clone(),  # it may lie in the memory of the weight's gradient
        None if dr is None else layer.in_layout_of(dr, x),
    ]
    native: Any = torch._C
    tensors = not_none(*ordered)
    return [each.clone() if native._is_alias_of(each, grad) else each for each in tensors]


def fake_gradients(
    layer: Layer, grad: Tensor, x: Tensor, weight: Tensor, needed: Sequence[bool]
) -> list[Tensor]:
    """Return what :func:`operator_outputs` would, as tensors without data."""
    filters = weight.shape[0] if weight.ndim > 1 else 1
    each = (
        layer.in_layout_of(torch.empty_like(x), x),
        weight.new_empty(weight.shape),
        weight.new_empty((filters,)),
        layer.in_layout_of(torch.empty_like(grad), x),
    )
    return [made for made, is_needed in zip(each, needed, strict=True) if is_needed]


def per_tensor(found: Sequence[Tensor], needed: PerTensor) -> PerTensor:
    """Return the gradients that an operator ``found``, with None for those not ``needed``."""
    rest = iter(found)
    return PerTensor(*(next(rest) if is_needed else None for is_needed in needed))
