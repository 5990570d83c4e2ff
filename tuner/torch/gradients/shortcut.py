"""Shortcuts for gradients: recognise a call like an earlier one in one step, and call its kernels.

``tuner/torch/shortcut.py`` has the same for outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from tuner.library.load import Library
from tuner.torch.gradients.call import Layer, PerTensor, Saved
from tuner.torch.lookup.workload_lookup import Purpose
from tuner.torch.shortcut import EMPTY_STRIDED, AxisOrder, DispatchGuard


class LayerWithShortcut(Layer, Protocol):
    """A layer that keeps the shortcut for gradients of its last call."""

    gradient_shortcut: GradientShortcut | None


class GradientShortcut:
    """A shortcut for gradients that kernels alone compute.

    The kernels are one library for all gradients at once, or one for each of input and weight.
    """

    @classmethod
    def of(cls, layer: Layer, grad: Tensor, saved: Saved, needed: PerTensor) -> Self | None:
        """Return a shortcut for calls like the last one, which was on these tensors.

        Return None if more is to be done than to call kernels, or gradients are recorded.
        """
        x, weight, bias, residual, _ = saved
        by_pytorch = "pytorch" in layer.used_backward.values()
        if needed.residual or residual is not None or by_pytorch or torch.is_grad_enabled():
            return None
        kernels = _kernels(layer, x, weight, needed)
        works: list[Any] = [each.workload for each in kernels.values()]
        if not works or layer.in_layout_of(grad, x) is not grad:
            return None
        if needed.bias and not works[-1].bias:
            return None
        layouts = {each.layout for each in works}
        if len(layouts) != 1:
            return None
        orders = layer.ORDERS.get(layouts.pop())
        named: dict[str, Any] = {
            "output_gradient": grad,
            "input": x,
            "weight": weight,
            "bias": bias,
        }
        takes_bias = False
        for argument in (each for work in works for each in work.inputs):
            given = named[argument.name]
            takes_bias = takes_bias or argument.name == "bias"
            if orders is not None and argument.name in ("output_gradient", "input"):
                given = given.permute(orders[0])
            if given.shape != argument.shape:
                return None
        tensors = [each for name, each in named.items() if takes_bias or name != "bias"]
        return cls(tensors, needed, kernels, layer.ORDERS)

    def __init__(
        self,
        tensors: list[Tensor],
        needed: PerTensor,
        kernels: dict[Purpose, Library],
        orders: Mapping[str | None, tuple[AxisOrder, AxisOrder]],
    ) -> None:
        """Remember a call on these ``tensors``: the output's gradient, input, weight, perhaps bias.

        ``kernels`` compute the gradients. ``orders`` has two permutations of axes for each layout
        with channels last: from PyTorch's order to the kernel's, and back.
        """
        self._guard = DispatchGuard(tensors)
        self._has_bias = len(tensors) > 3
        self._needed = list(needed)
        called = {each: _as_function(kernels[each], orders, self._guard.gpu) for each in kernels}
        self._at_once = called.get("backward")
        self._of_input = called.get("backward_input")
        self._of_weight = called.get("backward_weight")
        weight = tensors[2]
        self._shape, self._strides = weight.shape, weight.stride()
        self._taps = prod(weight.shape)
        of_weight: Any = kernels["backward_weight"].workload if self._of_weight else None
        # a bias's gradient lies behind it, or it is of one signal, whose weight may have three axes
        self._has_other_shape = of_weight is not None and of_weight.output.shape != weight.shape
        needs = zip(("input", "weight"), needed, strict=False)
        self.used = {name: "tuned" for name, is_needed in needs if is_needed}

    def __call__(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, needed: list[bool],
    ) -> list[Tensor] | None:  # fmt: skip
        """Return the gradients that are needed, in the order of :class:`PerTensor`.

        Return None if the call is not like the one remembered.
        """
        if needed != self._needed or residual is not None or torch.is_grad_enabled():
            return None
        if (bias is not None) is not self._has_bias:
            return None
        biases = () if bias is None else (bias,)
        if not self._guard(grad, x, weight, *biases):
            return None
        if self._at_once is not None:
            return self._at_once(x, grad, weight, *biases)[: 2 + needed[2]]
        found = []
        if self._of_input is not None:
            found += self._of_input(grad, weight)
        if self._of_weight is not None:
            (y,) = self._of_weight(x, grad)
            found.append(y.as_strided(self._shape, self._strides) if self._has_other_shape else y)
            if needed[2]:
                found.append(y[self._taps :].clone())  # an operator's outputs share no memory
        return found


def recognised(
    layer: LayerWithShortcut, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
    residual: Tensor | None, needed: list[bool],
) -> list[Tensor] | None:  # fmt: skip
    """Return the gradients if the call is like the last one that kernels computed, else None."""
    shortcut = layer.gradient_shortcut
    if shortcut is None:
        return None
    found = shortcut(grad, x, weight, bias, residual, needed)
    if found is not None and layer.used_backward != shortcut.used:
        layer.used_backward = shortcut.used
    return found


def _kernels(layer: Layer, x: Tensor, weight: Tensor, needed: PerTensor) -> dict[Purpose, Library]:
    """Return the kernels that compute the needed gradients of input and weight.

    Return no kernels if PyTorch computes one of these gradients, or if something else is computed
    first: for an activation that no kernel of all gradients includes, the sums and their gradient.
    """
    both = needed.input and needed.weight
    at_once = layer.gradient_library(x, weight, "backward") if both else None
    if at_once is not None:
        work: Any = at_once.workload
        return {"backward": at_once} if work.activation == layer.activation else {}
    if layer.activation != "none":
        return {}
    wanted: tuple[Purpose, Purpose] = ("backward_input", "backward_weight")
    found = {
        purpose: layer.gradient_library(x, weight, purpose)
        for purpose, is_needed in zip(wanted, needed, strict=False)
        if is_needed
    }
    kernels = {purpose: library for purpose, library in found.items() if library is not None}
    return kernels if len(kernels) == len(found) else {}


def _as_function(
    library: Library, orders: Mapping[str | None, tuple[AxisOrder, AxisOrder]], gpu: int | None
) -> Callable[..., list[Tensor]]:
    """Return the library as a function of tensors, which gives a list of its outputs.

    The axes of both are in PyTorch's order. ``orders`` are those of :class:`GradientShortcut`.
    """
    given, outputs = library.workload.inputs, library.workload.outputs
    taken = [orders[each.layout][0] if each.layout in orders else None for each in given]
    given_back = [orders[each.layout][1] if each.layout in orders else None for each in outputs]
    by_address = library.by_address(gpu)
    if by_address is None:

        def by_tensors(*tensors: Tensor) -> list[Tensor]:
            found = library.of_tensors(*map(_permuted, tensors, taken))
            several = found if isinstance(found, tuple) else (found,)
            return [*map(_permuted, several, given_back)]

        return by_tensors
    run, empty, likes = by_address, EMPTY_STRIDED[library.kind], []
    for output, order in zip(outputs, given_back, strict=True):
        dtype = getattr(torch, output.dtype)
        like = _permuted(torch.empty(output.shape, dtype=dtype, device="meta"), order)
        likes.append((tuple(like.shape), like.stride(), dtype))

    def at_once(*tensors: Tensor) -> list[Tensor]:
        made = [empty(*like) for like in likes]
        run(*[each.data_ptr() for each in (*tensors, *made)])
        return made

    return at_once


def _permuted(x: Tensor, order: AxisOrder | None) -> Tensor:
    return x if order is None else x.permute(order)
