"""The activations that a kernel can apply, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import nn
from torch.nn import functional

from templates.epilogue import Activation
from tuner.errors import WrongArgument

_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "hardswish": functional.hardswish,
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


def of(module: Any) -> Activation | None:
    """The activation that is all that the module computes."""
    activation = _MODULES.get(type(module))
    if activation == "gelu" and module.approximate != "none":
        return None
    return activation
