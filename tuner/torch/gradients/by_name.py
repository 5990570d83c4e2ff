"""Gradients of the operators by name, which are operators of PyTorch's graphs themselves:
``convtune::conv1d_gradients`` and ``convtune::depthwise_conv2d_gradients``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from templates.epilogue import Activation
from tuner.torch.functional import activations, convolutions
from tuner.torch.gradients.call import (
    Calls,
    Differentiated,
    PerTensor,
    Saved,
    compute_gradients,
    fake_gradients,
    operator_outputs,
    per_tensor,
)
from tuner.torch.gradients.shortcut import GradientShortcut, recognised
from tuner.torch.module_operator import is_plain, is_transformed, needs_derivative
from tuner.torch.modules import Conv1d, DepthwiseConv2d
from tuner.torch.tuned_module import Tuned

_SCHEMA = (
    "(Tensor grad, Tensor input, Tensor weight, Tensor? bias, Tensor? residual, Tensor? output, "
    "bool[] needed, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, "
    "str activation, float? max_error) -> Tensor[]"
)
CallArguments = tuple[Sequence[int], Sequence[int], Sequence[int], int, str, float | None]
"""Stride, padding of each side, dilation, groups, activation and ``max_error``."""


class NamedOperator(Protocol):
    """An operator by name, as its gradients need it."""

    kind: type[Conv1d | DepthwiseConv2d]

    def layer_of(self, x: Tensor, weight: Tensor, has_bias: bool, *terms: Any) -> Tuned | None: ...


class OperatorGradients:
    """The gradients of one operator, registered with PyTorch under its name and ``_gradients``."""

    def __init__(self, operator: NamedOperator, library: Any) -> None:
        self._operator = operator
        name = f"{operator.kind.operator}_gradients"
        library.define(f"{name}{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
        # "Batched": several gradients at once, as of torch.autograd.grad with is_grads_batched
        for kind in ("CPU", "CUDA", "Batched"):
            library.impl(name, self._computed, kind)
        library.impl(name, self._differentiated, "Autograd")
        torch.library.register_fake(f"convtune::{name}", self._fake, lib=library)
        self._call = getattr(torch.ops.convtune, name).default

    def of(
        self, below: Callable[..., Tensor], given: Sequence[Any], terms: CallArguments
    ) -> Tensor | None:
        """Return the output with gradients, or None if only PyTorch can compute those.

        ``given`` are input, weight, bias and residual, of which ``below`` computes the output.
        """
        stride, _, dilation, _, activation, _ = terms
        alike = min(stride) == max(stride) and min(dilation) == max(dilation)  # symbols: no hash
        if is_transformed() or given[0].is_complex() or not alike:
            return None
        calls = Calls(
            activations.known(activation),
            below,
            partial(self._by_operator, terms),
            partial(self._by_pytorch, terms),
        )
        apply: Any = Differentiated.apply
        output: Tensor = apply(calls, *given)
        return output

    def _by_operator(
        self, terms: CallArguments, grad: Tensor, saved: Saved, needed: PerTensor
    ) -> PerTensor:
        return per_tensor(self._call(grad, *saved, list(needed), *terms), needed)

    def _by_pytorch(
        self, terms: CallArguments, grad: Tensor, saved: Saved, needed: PerTensor
    ) -> PerTensor:
        return compute_gradients(
            _PyTorchLayer(self._operator.kind, terms), grad, saved, needed, tuned=False
        )

    def _computed(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, output: Tensor | None, needed: list[bool], *terms: Any,
    ) -> list[Tensor]:  # fmt: skip
        saved, flags = Saved(x, weight, bias, residual, output), PerTensor(*needed)
        has_bias = flags.bias or bias is not None
        tuned = self._operator.layer_of(x, weight, has_bias, *terms)
        if tuned is None:
            layer = _PyTorchLayer(self._operator.kind, terms)
            return operator_outputs(layer, compute_gradients(layer, grad, saved, flags), grad, x)
        known = recognised(tuned, grad, x, weight, bias, residual, needed)
        if known is not None:
            return known
        found = operator_outputs(tuned, compute_gradients(tuned, grad, saved, flags), grad, x)
        tuned.gradient_shortcut = GradientShortcut.of(tuned, grad, saved, flags)
        return found

    def _fake(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, output: Tensor | None, needed: Sequence[bool], *terms: Any,
    ) -> list[Tensor]:  # fmt: skip
        return fake_gradients(_PyTorchLayer(self._operator.kind, terms), grad, x, weight, needed)

    def _differentiated(
        self, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
        residual: Tensor | None, output: Tensor | None, needed: list[bool], *terms: Any,
    ) -> list[Tensor]:  # fmt: skip
        """Return gradients. PyTorch computes them if their own derivatives are needed."""
        saved = Saved(x, weight, bias, residual, output)
        if needs_derivative(grad, x, weight, bias, residual):
            layer = _PyTorchLayer(self._operator.kind, terms)
            found = compute_gradients(layer, grad, saved, PerTensor(*needed), tuned=False)
            return operator_outputs(layer, found, grad, x)
        if is_plain(grad, x, weight, bias, residual, output):
            return self._computed(grad, x, weight, bias, residual, output, needed, *terms)
        with torch._C._AutoDispatchBelowAutograd():
            below: list[Tensor] = self._call(grad, *saved, needed, *terms)
        return below


class _PyTorchLayer:
    """A layer for which PyTorch computes everything."""

    ORDERS: ClassVar[dict[str | None, Any]] = {}

    def __init__(self, kind: type[Conv1d | DepthwiseConv2d], terms: Any) -> None:
        self._kind, self.AXES = kind, kind.AXES
        (self._stride, *_), self._padding, (self._dilation, *_), self._groups, name, _ = terms
        self.activation: Activation = activations.known(name)
        self.used_backward: dict[str, str] = {}

    def gradient_library(self, x: Tensor, weight: Tensor, purpose: object) -> None:
        return None

    def sums(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None
    ) -> Tensor:
        y = self.convolved(x, weight, bias)
        return self.in_layout_of(y if residual is None else y + residual, x)

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        call = getattr(convolutions, self._kind.operator)
        how = self._stride, self._padding, self._dilation, self._groups
        output: Tensor = call(x, weight, bias, *how)
        return output

    def differentiated(
        self, g: Tensor, x: Tensor, weight: Tensor, wanted: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        how = self._stride, self._padding, self._dilation, self._groups
        return convolutions.gradients(g, x, weight, *how, wanted)

    def as_library_view(self, x: Any, argument: object) -> Any:
        return x

    def in_layout_of(self, y: Tensor, x: Tensor) -> Tensor:
        found: Tensor = self._kind.in_layout_of(y, x)
        return found
