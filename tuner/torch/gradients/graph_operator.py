"""The gradients of an operator, which are an operator of PyTorch's graphs themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from templates.epilogue import Activation
from tuner.torch.gradients.call import (
    Calls,
    Forward,
    Layer,
    PerTensor,
    Saved,
    compute_gradients,
    fake_gradients,
    operator_outputs,
    per_tensor,
)
from tuner.torch.gradients.shortcut import GradientShortcut, LayerWithShortcut, recognised
from tuner.torch.pytorch_only import is_plain, needs_derivative

_SCHEMA = (
    "(Tensor grad, Tensor input, Tensor weight, Tensor? bias, Tensor? residual, Tensor? output, "
    "bool[] needed, {others}) -> Tensor[]"
)


class GradientsOperator:
    """The gradients of an operator, registered with PyTorch under its name and ``_gradients``.

    ``others`` declares the operator's last arguments. ``tuned`` takes the input, the weight,
    whether there is a bias, and the last arguments. It returns the layer that computes, or None if
    only PyTorch can. ``by_pytorch`` takes only the last arguments, and returns a layer that PyTorch
    computes.
    """

    def __init__(
        self,
        library: Any,
        name: str,
        others: str,
        tuned: Callable[..., LayerWithShortcut | None],
        by_pytorch: Callable[..., Layer],
    ) -> None:
        self._tuned, self._by_pytorch = tuned, by_pytorch
        name = f"{name}_gradients"
        schema = _SCHEMA.format(others=others)
        library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        # "Batched": several gradients at once, as of torch.autograd.grad with is_grads_batched
        for kind in ("CPU", "CUDA", "Batched"):
            library.impl(name, self._computed, kind)
        library.impl(name, self._differentiated, "Autograd")
        torch.library.register_fake(f"convtune::{name}", self._fake, lib=library)
        self.call: Any = getattr(torch.ops.convtune, name).default

    def calls(self, activation: Activation, forward: Forward, *others: Any) -> Calls:
        """Return the functions for a call and its gradients. ``forward`` computes the call, and
        ``others`` are the operator's last arguments."""
        return Calls(
            activation,
            forward,
            partial(self._called, others),
            partial(compute_gradients, self._by_pytorch(*others), tuned=False),
        )

    def _called(
        self, others: tuple[Any, ...], grad: Tensor, saved: Saved, needed: PerTensor
    ) -> PerTensor:
        return per_tensor(self.call(grad, *saved, list(needed), *others), needed)

    def _computed(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, output: Tensor | None, needed: list[bool], *others: Any,
    ) -> list[Tensor]:  # fmt: skip
        saved, flags = Saved(x, weight, bias, residual, output), PerTensor(*needed)
        tuned = self._tuned(x, weight, flags.bias or bias is not None, *others)
        if tuned is None:
            layer = self._by_pytorch(*others)
            return operator_outputs(layer, compute_gradients(layer, grad, saved, flags), grad, x)
        known = recognised(tuned, grad, x, weight, bias, residual, needed)
        if known is not None:
            return known
        found = operator_outputs(tuned, compute_gradients(tuned, grad, saved, flags), grad, x)
        made = GradientShortcut.of(tuned, grad, saved, flags)
        if made is not None:  # to set a module's attribute takes long
            tuned.gradient_shortcut = made
        return found

    def _fake(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, output: Tensor | None, needed: list[bool], *others: Any,
    ) -> list[Tensor]:  # fmt: skip
        return fake_gradients(self._by_pytorch(*others), grad, x, weight, needed)

    def _differentiated(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, output: Tensor | None, needed: list[bool], *others: Any,
    ) -> list[Tensor]:  # fmt: skip
        """Return gradients. PyTorch computes them if their own derivatives are needed."""
        saved = Saved(x, weight, bias, residual, output)
        if needs_derivative(grad, x, weight, bias, residual):
            layer = self._by_pytorch(*others)
            found = compute_gradients(layer, grad, saved, PerTensor(*needed), tuned=False)
            return operator_outputs(layer, found, grad, x)
        if is_plain(grad, x, weight, bias, residual, output):
            return self._computed(grad, *saved, needed, *others)
        with torch._C._AutoDispatchBelowAutograd():
            below: list[Tensor] = self.call(grad, *saved, needed, *others)
        return below
