"""Shortcuts for gradients: recognise a call like an earlier one in one step, and call its kernels.

They are to gradients what those of ``tuner/torch/shortcut.py`` are to outputs.
"""

from __future__ import annotations

from math import prod
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from tuner.library.load import Library
from tuner.library.torch_transforms import active
from tuner.torch.gradients.call import Layer, Of, Saved, Some
from tuner.torch.looks_up import Purpose


class Remembers(Layer, Protocol):
    """A layer that keeps the shortcut for gradients of its last call."""

    gradient_shortcut: GradientShortcut | None


class GradientShortcut:
    """A shortcut for gradients that kernels alone compute.

    They are one library for all gradients at once, or one each for those of input and weight.
    """

    @classmethod
    def of(cls, layer: Layer, grad: Tensor, saved: Saved, needed: Of) -> Self | None:
        """Return a shortcut for calls like the last one, which was on these tensors.

        Return None if more is to be done than to call kernels, or gradients are recorded.
        """
        x, weight, bias, residual, _ = saved
        by_pytorch = "pytorch" in layer.used_backward.values()
        if needed.residual or residual is not None or by_pytorch or torch.is_grad_enabled():
            return None
        kernels = _kernels(layer, x, weight, needed)
        works: list[Any] = [each.workload for each in kernels.values()]
        if not works or layer.laid_out(grad, x) is not grad:
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
        for argument in (each for work in works for each in work.given):
            given = named[argument.name]
            takes_bias = takes_bias or argument.name == "bias"
            if orders is not None and argument.name in ("output_gradient", "input"):
                given = given.permute(orders[0])
            if given.shape != argument.shape:
                return None
        tensors = [each for name, each in named.items() if takes_bias or name != "bias"]
        return cls(tensors, needed, kernels, orders)

    def __init__(
        self, tensors: list[Tensor], needed: Of, kernels: dict[Purpose, Library], orders: Any
    ) -> None:
        """Remember a call on these ``tensors``: the output's gradient, input, weight, perhaps bias.

        ``kernels`` compute the gradients. ``orders`` are the axes with which ``permute`` turns the
        first two tensors into the kernels' layout, and the input's gradient back; None if they are
        taken and given as they are.
        """
        sizes: Any = [list(each.shape) for each in tensors]
        strides: Any = [list(each.stride()) for each in tensors]
        self._alike = TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        self._has_bias = len(tensors) > 3
        self._needed = list(needed)
        self._at_once = kernels.get("backward")
        self._of_input = kernels.get("backward_input")
        self._of_weight = kernels.get("backward_weight")
        self._taken = orders and orders[0]
        self._given_back = orders and orders[1]
        weight = tensors[2]
        self._shape, self._strides = weight.shape, weight.stride()
        self._taps = prod(weight.shape)
        of_weight: Any = self._of_weight and self._of_weight.workload
        self._biases = of_weight is not None and of_weight.bias  # behind the weight's gradient
        needs = zip(("input", "weight"), needed, strict=False)
        self.used = {name: "tuned" for name, is_needed in needs if is_needed}

    def __call__(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Some, residual: Some,
        needed: list[bool],
    ) -> list[Tensor] | None:  # fmt: skip
        """Return the gradients that are needed, in the order of :class:`Of`.

        Return None if the call is not like the one remembered.
        """
        if needed != self._needed or residual is not None or torch.is_grad_enabled():
            return None
        if (bias is not None) is not self._has_bias:
            return None
        biases = () if bias is None else (bias,)
        if not self._alike(grad, x, weight, *biases) or active(torch):
            return None
        if self._taken is not None:
            grad, x = grad.permute(self._taken), x.permute(self._taken)
        if self._at_once is not None:
            y, *others = self._at_once.of_tensors(x, grad, weight, *biases)
            return [self._placed(y), *others[: 1 + needed[2]]]
        found = []
        if self._of_input is not None:
            found.append(self._placed(self._of_input.of_tensors(grad, weight)))
        if self._of_weight is not None:
            y = self._of_weight.of_tensors(x, grad)
            found.append(y.as_strided(self._shape, self._strides) if self._biases else y)
            if needed[2]:
                found.append(y[self._taps :].clone())  # an operator's outputs share no memory
        return found

    def _placed(self, y: Tensor) -> Tensor:
        return y if self._given_back is None else y.permute(self._given_back)


def recognised(
    layer: Remembers, grad: Tensor, x: Tensor, weight: Tensor, bias: Some, residual: Some,
    needed: list[bool],
) -> list[Tensor] | None:  # fmt: skip
    """Return the gradients if the call is like the last one that kernels computed, else None."""
    shortcut = layer.gradient_shortcut
    if shortcut is None:
        return None
    found = shortcut(grad, x, weight, bias, residual, needed)
    if found is not None and layer.used_backward != shortcut.used:
        layer.used_backward = shortcut.used
    return found


def _kernels(layer: Layer, x: Tensor, weight: Tensor, needed: Of) -> dict[Purpose, Library]:
    """Return the kernels that compute the needed gradients of input and weight.

    Return no kernels if something else is computed first: for an activation that no kernel of all
    gradients includes, the sums and their gradient.
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
    return {purpose: library for purpose, library in found.items() if library is not None}
