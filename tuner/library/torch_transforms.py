"""Detection of PyTorch's recordings and transformations that would miss a compiled library.

PyTorch does not see that a library is called, so it can't record or transform the call.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def is_recording(torch: ModuleType) -> bool:
    """Return whether a dispatch mode, torch.jit.trace or forward-mode differentiation is active.

    This is cheap enough to be asked before each call. It does not look at torch.func.
    """
    native = torch._C
    return bool(
        native._len_torch_dispatch_stack()
        or native._is_tracing()
        or torch.autograd.forward_ad._current_level >= 0
    )


def is_inactive(torch: ModuleType) -> bool:
    """Return whether nothing records or transforms calls, so that a call on plain tensors loses
    nothing.

    This checks torch.func and make_fx's pre-dispatch tracing in addition to what
    :func:`is_recording` checks. It is as cheap.
    """
    native = torch._C
    return not (
        is_recording(torch)
        or native._functorch.peek_interpreter_stack() is not None
        or native._dispatch_tls_is_dispatch_key_included(native.DispatchKey.PreDispatch)
    )


def records_gradients(torch: ModuleType) -> bool:
    """Return whether PyTorch records calls on tensors that require grad.

    In inference mode it does not, even if gradients are enabled. No graph of ``torch.compile`` can
    ask this.
    """
    return bool(torch.is_grad_enabled() and not torch.is_inference_mode_enabled())


def unsupported_reason(*tensors: Any) -> str | None:
    """Return what a call on these tensors would lose, as the end of a message; None if it would
    lose nothing."""
    torch = sys.modules["torch"]
    if torch.jit.is_tracing():
        return "torch.jit.trace can't record it"
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    if proxies is not None and proxies.get_proxy_mode() is not None:
        return "make_fx can't record it"
    forward_ad = torch.autograd.forward_ad
    for tensor in tensors:
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return "torch.func can't transform it"
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
            return "its tangent of forward-mode differentiation would be lost"
    return None
