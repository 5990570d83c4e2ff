"""Calling a library by the addresses of its tensors. tuner/build/addresses.c is the other side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from templates.argument import Argument, workspace_of
from templates.dtypes import BYTES_PER_ELEMENT

_CODES = {"float32": 2, "float16": 2, "bfloat16": 4}
"""DLPack's type code of each dtype."""
Call = Callable[..., object]


def on_cpu(module: Any, arguments: Sequence[Argument]) -> Call | None:
    """Return the kernel as a function of addresses in the arguments' order.

    Each address must be that of a contiguous tensor of the argument's shape and dtype on the CPU;
    nothing is checked. Return None if a loaded library has no such function, because an earlier
    release compiled it, or if it has too many tensors or axes."""
    if not _describe_tensors(module, arguments):
        return None
    call: Call = module["at"]
    return call


def on_gpu(module: Any, arguments: Sequence[Argument], workspace: int, gpu: int) -> Call | None:
    """Return such a function for PyTorch's tensors on the GPU of that number, which must be the
    current one.

    A call is queued on PyTorch's current stream. PyTorch's allocator provides the workspace, which
    has that number of float32 elements."""
    arguments = *arguments, *workspace_of(workspace)
    if not module.implements_function("on_stream") or not _describe_tensors(module, arguments):
        return None
    torch = sys.modules["torch"]
    run: Call = module["on_stream"]
    current_stream = torch._C._cuda_getCurrentRawStream
    if not workspace:
        return lambda *addresses: run(gpu, current_stream(gpu), *addresses)
    empty = torch._C._dynamo.guards._empty_strided_cuda
    like = (workspace,), (1,), torch.float32

    def with_workspace(*addresses: int) -> None:
        memory = empty(*like)  # PyTorch gives it to nobody before the kernel is queued
        run(gpu, current_stream(gpu), *addresses, memory.data_ptr())

    return with_workspace


def _describe_tensors(module: Any, arguments: Sequence[Argument]) -> bool:
    """Tell the library the dtypes and shapes of its tensors. Return whether it takes addresses."""
    if not module.implements_function("describe"):
        return False
    describe = module["describe"]
    for number, argument in enumerate(arguments):
        kind = _CODES[argument.dtype], 8 * BYTES_PER_ELEMENT[argument.dtype]
        if describe(number, *kind, *argument.shape) != 0:
            return False
    return True
