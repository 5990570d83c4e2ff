"""Tensors and calls of which only PyTorch's own operators know what to do."""

from __future__ import annotations

from typing import Any

import torch

from tuner.errors import WrongArgument
from tuner.library import torch_transforms

PLAIN = (torch.Tensor, torch.nn.Parameter)
NEEDS_GRAD = "grad is needed, and of this shape neither output nor gradients are tuned"
NORM_NEEDS_GRAD = (
    "grad is needed, and its batch norm was taken into the kernel, which has no gradients; call it "
    "under torch.no_grad(), or call optimize_ with mode='training'"
)


def beyond_kernels(*given: Any) -> str | None:
    """Why a kernel can't take these tensors, or None in the place of one. It is asked before each
    call, so what is usual takes few calls of PyTorch's."""
    needs_grad = False
    for each in given:
        if each is not None:
            if type(each) not in PLAIN:
                return f"it takes a {type(each).__name__}, and a library plain tensors"
            if each.is_neg():  # its memory is without the sign
                return "it takes a negated view; call .resolve_neg() on it"
            needs_grad = needs_grad or each.requires_grad
    return NEEDS_GRAD if needs_grad and torch.is_grad_enabled() else None


def only_pytorchs(*given: Any) -> str | None:
    """Why only PyTorch's own operators know what to do with these tensors now."""
    if not torch_transforms.quiet(torch):
        lost = torch_transforms.loses(*there(*given))
        if lost is not None:
            return lost
    return beyond_kernels(*given)


def there(*tensors: Any) -> list[Any]:
    return [each for each in tensors if each is not None]


def recorded(module: torch.nn.Module, *given: Any) -> torch.fx.Proxy:
    """The call of a module on what ``torch.fx.symbolic_trace`` records, as one node. Raises
    WrongArgument if nothing calls it."""
    symbols = there(*given)
    tracer: Any = symbols[0].tracer
    path = tracer.path_of_module(module)
    if not path:
        raise WrongArgument(
            "symbolic_trace of a module alone has no node for it; trace the model that calls it"
        )
    node: torch.fx.Proxy = tracer.create_proxy("call_module", path, tuple(symbols), {})
    return node
