"""Bias, residual and activation as users of NumPy and PyTorch write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from templates.epilogue import WithEpilogue

if TYPE_CHECKING:
    from torch import Tensor


def with_numpy_epilogue(workload: WithEpilogue, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``call``, a function of input and weight, followed by the workload's epilogue. The
    result takes the bias and the residual after the weight, if the workload has them."""
    if not workload.has_epilogue:
        return call
    activate = _NUMPY[workload.activation]
    layout = workload.output.layout
    behind = (1,) * (len(layout) - 1 - layout.index("C")) if layout else ()

    def finished(x: Any, w: Any, *added: Any) -> Any:
        y = call(x, w)
        for argument, each in zip(workload.inputs[2:], added, strict=True):
            y += each.reshape(-1, *behind) if argument.role == "bias" else each
        return activate(y)

    return finished


def torch_epilogue(workload: WithEpilogue, residual: Tensor | None) -> Callable[[Tensor], Tensor]:
    """Return the function that adds the residual to a convolution's output, unless it is None, and
    applies the activation. The convolution has already added the bias."""
    from torch.nn import functional

    named = workload.activation
    activate: Callable[[Tensor], Tensor] = (
        (lambda y: y) if named == "none" else getattr(functional, named)
    )
    if residual is None:
        return activate
    return lambda y: activate(y + residual)


def activation_backward(workload: WithEpilogue) -> Callable[..., Tensor]:
    """Return the function that PyTorch's autograd calls for the activation's derivative.

    It takes the gradient of the activation's result and, if there is an activation, the sums. It
    returns the gradient of the sums."""
    import torch

    aten = torch.ops.aten
    calls: dict[str, Callable[..., Tensor]] = {
        "none": lambda g: g,
        "relu": lambda g, z: aten.threshold_backward(g, z, 0),
        "relu6": lambda g, z: aten.hardtanh_backward(g, z, 0, 6),
        "silu": aten.silu_backward,
        "gelu": aten.gelu_backward,
        "hardswish": aten.hardswish_backward,
    }
    return calls[workload.activation]


def _silu(y: Any) -> Any:
    with np.errstate(over="ignore"):  # if exp(-y) overflows, the result is 0, which is right
        return y / (1 + np.exp(-y))


def _gelu(y: Any) -> Any:
    from scipy.special import erf

    return y * (erf(y * np.float32(0.5**0.5)) + 1) / 2


_NUMPY: dict[str, Callable[[Any], Any]] = {
    "none": lambda y: y,
    "relu": lambda y: np.maximum(y, 0, out=y),
    "relu6": lambda y: np.clip(y, 0, 6, out=y),
    "silu": _silu,
    "gelu": _gelu,
    "hardswish": lambda y: y * np.clip(y + 3, 0, 6) / 6,
}
