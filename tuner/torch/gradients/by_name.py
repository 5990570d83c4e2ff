"""Gradients of the operators by name. They are operators of PyTorch's graphs themselves:
``convtune::conv1d_gradients`` and ``convtune::depthwise_conv2d_gradients``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from torch import Tensor

from templates.epilogue import Activation
from tuner.torch.functional import activations, convolutions
from tuner.torch.gradients.call import Differentiated
from tuner.torch.gradients.graph_operator import GradientsOperator
from tuner.torch.modules import Conv1d, DepthwiseConv2d
from tuner.torch.pytorch_only import is_transformed
from tuner.torch.tuned_module import Tuned

_TERMS = (
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, str activation, "
    "float? max_error"
)
CallArguments = tuple[Sequence[int], Sequence[int], Sequence[int], int, str, float | None]
"""Stride, padding of each side, dilation, groups, activation and ``max_error``."""


class NamedOperator(Protocol):
    """An operator by name, as its gradients need it."""

    kind: type[Conv1d | DepthwiseConv2d]

    def layer_of(self, x: Tensor, weight: Tensor, has_bias: bool, *terms: Any) -> Tuned | None: ...


class OperatorGradients:
    """The gradients of one operator by name."""

    def __init__(self, operator: NamedOperator, library: Any) -> None:
        kind = operator.kind
        self._operator = GradientsOperator(
            library,
            kind.operator,
            _TERMS,
            operator.layer_of,
            lambda *terms: _PyTorchLayer(kind, terms),
        )

    def of(
        self, below: Callable[..., Tensor], given: Sequence[Any], terms: CallArguments
    ) -> Tensor | None:
        """Return the output with gradients, or None if only PyTorch can compute those.

        ``given`` are input, weight, bias and residual, of which ``below`` computes the output.
        """
        stride, _, dilation, _, activation, _ = terms
        alike = min(stride) == max(stride) and min(dilation) == max(dilation)  # symbols: no hash
        if is_transformed(*given) or given[0].is_complex() or not alike:
            return None
        calls = self._operator.calls(activations.known(activation), below, *terms)
        apply: Any = Differentiated.apply
        output: Tensor = apply(calls, *given)
        return output


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
