"""Gradients of a call like one whose gradients kernels alone have computed, recognised in one step,
as tuner/torch/shortcut.py does it with outputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import torch
from torch import Tensor
from torch._C._dynamo.guards import TensorGuards

from tuner.library.load import Library
from tuner.library.torch_transforms import active
from tuner.torch.gradients.call import Layer, Of
from tuner.torch.shortcut import Order

GIVEN = ("output_gradient", "input", "weight")


class GradientShortcut:
    """For calls of the libraries of an input's and a weight's gradient, None for what is not
    needed. ``orders`` are those of the axes in which they take the output's gradient and the
    input, and the input's gradient is given back; None: as they are."""

    @classmethod
    def of(cls, layer: Layer, grad: Tensor, x: Tensor, weight: Tensor, needed: Of) -> Self | None:
        """After a call on these tensors, while no gradients are recorded; None if it takes more
        than to call kernels."""
        by_pytorch = "pytorch" in layer.used_backward.values()
        if layer.activation != "none" or needed.residual or by_pytorch or torch.is_grad_enabled():
            return None
        both = needed.input and needed.weight
        at_once = both and layer.gradient_library(x, weight, "backward") is not None
        if at_once or layer.laid_out(grad, x) is not grad:
            return None
        of_input = layer.gradient_library(x, weight, "backward_input") if needed.input else None
        of_weight = layer.gradient_library(x, weight, "backward_weight") if needed.weight else None
        libraries: list[Any] = [each for each in (of_input, of_weight) if each is not None]
        if needed.bias and not _has_biases(of_weight):
            return None
        tensors = dict(zip(GIVEN, (grad, x, weight), strict=True))
        layouts = {each.workload.layout for each in libraries}
        if len(layouts) != 1:
            return None
        orders = layer.ORDERS.get(layouts.pop())
        for library in libraries:
            for argument in library.arguments[:-1]:
                given = tensors[argument.name]
                if orders is not None and argument.name != "weight":
                    given = given.permute(orders[0])
                if given.shape != argument.shape:
                    return None
        return cls((grad, x, weight), needed, of_input, of_weight, orders)

    def __init__(
        self,
        tensors: Sequence[Tensor],
        needed: Of,
        of_input: Library | None,
        of_weight: Library | None,
        orders: tuple[Order, Order] | None,
    ) -> None:
        sizes: Any = [list(each.shape) for each in tensors]
        strides: Any = [list(each.stride()) for each in tensors]
        self._alike = TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        self._needed = list(needed)
        self._of_input, self._of_weight = of_input, of_weight
        self._taken = orders and orders[0]
        self._given_back = orders and orders[1]
        weight = tensors[-1]
        self._shape, self._strides = weight.shape, weight.stride()
        self._taps = prod(weight.shape)
        self._biases = _has_biases(of_weight)
        self.used = {
            name: "tuned"
            for name, library in (("input", of_input), ("weight", of_weight))
            if library
        }

    def __call__(
        self, grad: Tensor, x: Tensor, weight: Tensor, needed: list[bool]
    ) -> list[Tensor] | None:
        """Those that are needed, in their order; None if the call is another one."""
        if needed != self._needed or torch.is_grad_enabled():
            return None
        if not self._alike(grad, x, weight) or active(torch):
            return None
        found = []
        if self._taken is not None:
            grad, x = grad.permute(self._taken), x.permute(self._taken)
        if self._of_input is not None:
            y = self._of_input.of_tensors(grad, weight)
            found.append(y if self._given_back is None else y.permute(self._given_back))
        if self._of_weight is not None:
            y = self._of_weight.of_tensors(x, grad)
            found.append(y.as_strided(self._shape, self._strides) if self._biases else y)
            if needed[2]:
                found.append(y[self._taps :].clone())  # an operator's outputs share no memory
        return found


def _has_biases(of_weight: Library | None) -> bool:
    """Whether a bias's gradient comes behind the weight's."""
    work: Any = of_weight and of_weight.workload
    return work is not None and bool(work.bias)
