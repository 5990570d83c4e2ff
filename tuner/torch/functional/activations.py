"""The activations that a kernel can apply, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import nn
from torch.nn import functional

from templates.epilogue import Activation
from tuner.errors import WrongArgument


def _of_silu(g: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Of PyTorch's own there is no derivative."""
    if not (torch.is_grad_enabled() and (g.requires_grad or z.requires_grad)):
        return torch.ops.aten.silu_backward(g, z)  # type: ignore[no-any-return]
    s = torch.sigmoid(z)
    return g * s * (1 + z * (1 - s))


_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "hardswish": functional.hardswish,
}
_DERIVED: dict[str, Callable[..., Any]] = {
    "relu": lambda g, z: torch.ops.aten.threshold_backward(g, z, 0),
    "relu6": lambda g, z: torch.ops.aten.hardtanh_backward(g, z, 0, 6),
    "silu": _of_silu,
    "gelu": torch.ops.aten.gelu_backward,
    "hardswish": torch.ops.aten.hardswish_backward,
}
_MODULES: dict[type, Activation] = {
    nn.Identity: "none",
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.SiLU: "silu",
    nn.GELU: "gelu",
    nn.Hardswish: "hardswish",
}


def known(activation: str) -> Activation:
    """Raises WrongArgument for one that no kernel applies."""
    names = get_args(Activation)
    if activation not in names:
        raise WrongArgument(f"activation is {activation!r}, and must be one of {', '.join(names)}")
    return names[names.index(activation)]  # type: ignore[no-any-return]


def applied(activation: Activation, y: torch.Tensor) -> torch.Tensor:
    if activation == "none":
        return y
    return _FUNCTIONS[activation](y)


def of_output(activation: Activation) -> bool:
    """Whether its derivative can be told from its result."""
    return activation in ("relu", "relu6")


def derived(activation: Activation, g: torch.Tensor, sums: Any) -> torch.Tensor:
    """The gradient of the sums before the activation, of that of its result; of these functions
    PyTorch has derivatives, too. In the place of the sums may stand the result where
    :func:`of_output` says so."""
    if activation == "none":
        return g
    found: torch.Tensor = _DERIVED[activation](g, sums)
    return found


def of(module: Any) -> Activation | None:
    """The activation that is all that the module computes."""
    activation = _MODULES.get(type(module))
    if activation == "gelu" and module.approximate != "none":
        return None
    return activation
