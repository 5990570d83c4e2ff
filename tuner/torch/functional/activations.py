"""The activations that a kernel can apply, and their gradients, by PyTorch's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import nn
from torch.nn import functional

from templates.epilogue import Activation
from tuner.errors import WrongArgument


def _of_silu(g: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return SiLU's gradient. PyTorch's silu_backward has no derivative of its own, so the formula
    is written out if one is needed."""
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
_LIBRARIES: dict[tuple[str, str], Activation] = {
    ("timm.layers.activations", "GELU"): "gelu",
    ("transformers.activations", "GELUActivation"): "gelu",
    ("transformers.activations", "SiLUActivation"): "silu",
}
"""Activations by the modules and names of other libraries' classes, which need not be installed."""


def known(activation: str) -> Activation:
    """Return the activation itself. Raise WrongArgument if no kernel applies it."""
    names = get_args(Activation)
    if activation not in names:
        raise WrongArgument(f"activation is {activation!r}, and must be one of {', '.join(names)}")
    return names[names.index(activation)]  # type: ignore[no-any-return]


def applied(activation: Activation, y: torch.Tensor) -> torch.Tensor:
    """Return the activation of ``y``."""
    if activation == "none":
        return y
    return _FUNCTIONS[activation](y)


def of_output(activation: Activation) -> bool:
    """Return whether the activation's derivative can be told from its result."""
    return activation in ("relu", "relu6")


def of_sums(activation: Activation) -> bool:
    """Return whether the activation's derivative needs the sums before it."""
    return activation != "none" and not of_output(activation)


def derived(activation: Activation, g: torch.Tensor, sums: Any) -> torch.Tensor:
    """Return the gradient of the sums before an activation, for ``g``, the gradient of its result.

    If :func:`of_output` is true of the activation, its result may be given in the place of the
    sums. The returned gradient can be differentiated again.
    """
    if activation == "none":
        return g
    found: torch.Tensor = _DERIVED[activation](g, sums)
    return found


def of(module: Any) -> Activation | None:
    """Return the activation that the module computes; None if it computes anything else.

    ``nn.Identity`` computes "none".
    """
    kind = type(module)
    activation = _MODULES.get(kind)
    if activation is None:
        return _of_library(module, kind)
    if activation == "gelu" and module.approximate != "none":
        return None
    if activation == "relu6" and (module.min_val, module.max_val) != (0.0, 6.0):
        return None
    return activation


def _of_library(module: Any, kind: type) -> Activation | None:
    """Return the activation of a module whose class is another library's; None if it is unknown."""
    activation = _LIBRARIES.get((kind.__module__, kind.__name__))
    function = vars(module).get("act", functional.gelu)  # transformers' GELU may have its own
    return None if activation == "gelu" and function is not functional.gelu else activation


def is_settable(module: Any) -> bool:
    """Return whether an attribute of the module says which activation it computes."""
    return isinstance(module, nn.ReLU6 | nn.GELU)
