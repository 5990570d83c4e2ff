"""Tensors and calls that compiled libraries can't take, so PyTorch's own operators compute them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.autograd import forward_ad

from tuner.errors import WrongArgument
from tuner.library import torch_transforms

PLAIN = (torch.Tensor, torch.nn.Parameter)
NEEDS_GRAD = (
    "gradients are needed, but neither the output nor the gradients of this shape are tuned"
)


def why_no_library(*given: Any) -> str | None:
    """Return why a library can't take these tensors, or None if it can.

    Any of the tensors may be None. This is asked before each call, so it makes only a few cheap
    calls into PyTorch if all is as usual.
    """
    needs_grad = False
    for each in given:
        if each is not None:
            if type(each) not in PLAIN:
                kind = type(each).__name__
                return f"it is called with a {kind}, but a library takes only plain tensors"
            if each.is_neg():  # its memory holds the values before they are negated
                return "it is called with a negated view; call .resolve_neg() on it"
            needs_grad = needs_grad or each.requires_grad
    return NEEDS_GRAD if needs_grad and torch_transforms.records_gradients(torch) else None


def why_pytorch(*given: Any) -> str | None:
    """Return why PyTorch must compute a call on these tensors, or None if a library can.

    The reason is one of :func:`why_no_library`, or something that records or transforms the call at
    the moment, such as ``torch.jit.trace``, ``torch.func`` or a ``TorchDispatchMode``. It would not
    see a library's work.
    """
    if not torch_transforms.is_inactive(torch):
        lost = torch_transforms.unsupported_reason(*not_none(*given))
        if lost is not None:
            return lost
        if torch._C._len_torch_dispatch_stack() > 0:
            return "a TorchDispatchMode is on, and would not see a library's work"
    return why_no_library(*given)


def is_transformed(*tensors: Tensor | None) -> bool:
    """Return whether forward-mode differentiation or a transform of torch.func is on, or one of the
    tensors has a tangent."""
    transformed = functorch.peek_interpreter_stack() is not None
    return transformed or forward_ad._current_level >= 0 or _has_tangent(*tensors)


def needs_derivative(*tensors: Tensor | None) -> bool:
    """Return whether derivatives by one of the tensors are needed, in backward or forward mode."""
    backward = torch_transforms.records_gradients(torch) and any(
        each.requires_grad for each in tensors if each is not None
    )
    return backward or _has_tangent(*tensors)


def _has_tangent(*tensors: Tensor | None) -> bool:
    """Return whether forward-mode differentiation is on and one of the tensors has a tangent.

    A graph of ``torch.compile`` begins it without telling ``forward_ad``: when it runs, for
    ``torch.func.jvp``, and when it is made, in which case the tensors are not plain.
    """
    innermost = functorch.peek_interpreter_stack()
    is_jvp = innermost is not None and innermost.key() == functorch.TransformType.Jvp
    given = not_none(*tensors)
    plain = all(type(each) in PLAIN for each in given)
    if plain and not is_jvp and forward_ad._current_level < 0:
        return False
    return any(torch._VF._unpack_dual(each, level=0)[1] is not None for each in given)


def is_plain(*tensors: Tensor | None) -> bool:
    """Return whether nothing below autograd listens, so that no second dispatch is needed.

    A second dispatch takes as long as the work itself. Besides, a shortcut remembers the dispatch
    state, so a shortcut made below autograd would never fit a call above it.
    """
    if torch_transforms.records_gradients(torch) or not torch_transforms.is_inactive(torch):
        return False
    here = all(each is None or each.is_cpu or each.is_cuda for each in tensors)
    return here and why_no_library(*tensors) is None


def not_none(*tensors: Any) -> list[Any]:
    """Return the tensors that are not None."""
    return [each for each in tensors if each is not None]


def trace_call(module: Any, x: torch.fx.Proxy, residual: Any) -> Any:
    """Record a tuned module's call as a node of the graph that ``torch.fx.symbolic_trace`` makes.

    The tracer records a hook of the module as operators, and a node would run the hook again. So
    PyTorch's operators take the node's place if there are hooks. Raises WrongArgument if the module
    itself is traced, because a node can only be the call of a submodule.
    """
    calls = module.fused_modules and module.fused_modules.calls
    if module._forward_hooks or module._forward_pre_hooks:
        if calls is None:
            return module.plain(x, module.weight, module.bias, residual)
        calls.announce_alone()
        return module.convolved(x, module.weight, module.bias)
    tracer: Any = x.tracer
    path = tracer.path_of_module(module)
    if not path:
        raise WrongArgument(
            "symbolic_trace of a module alone has no node for it; trace the model that calls it"
        )
    node = tracer.create_proxy("call_module", path, tuple(not_none(x, residual)), {})
    if calls is not None:
        calls.announce(node)
    return node
