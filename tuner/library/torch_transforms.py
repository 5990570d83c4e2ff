"""What PyTorch records or carries along with its tensors, and a compiled library would lose:
PyTorch does not see that it is called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def active(torch: ModuleType) -> bool:
    """Whether something may be lost: cheap enough to be asked before each call."""
    native = torch._C
    return bool(
        native._len_torch_dispatch_stack()
        or native._is_tracing()
        or torch.autograd.forward_ad._current_level >= 0
    )


def quiet(torch: ModuleType) -> bool:
    """Whether nothing records or transforms what is called now, so that nothing can be lost of
    plain tensors. As cheap as the function above."""
    native = torch._C
    return not (
        active(torch)
        or native._functorch.peek_interpreter_stack() is not None
        or native._dispatch_tls_is_dispatch_key_included(native.DispatchKey.PreDispatch)
    )


def loses(*tensors: Any) -> str | None:
    """What a call on these tensors would lose now, in words."""
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
