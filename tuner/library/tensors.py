"""Checks of the arrays that a library is called on. Any array type that supports DLPack will do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from templates.argument import Argument
from templates.dtypes import BYTES_PER_ELEMENT, in_numpy
from tuner.errors import WrongArgument, WrongDevice, WrongDtype, WrongLayout, WrongShape
from tuner.library import bfloat16, torch_transforms

_CONTIGUOUS, _OWNDATA, _ALIGNED, _WRITEABLE = 0x1, 0x4, 0x100, 0x400
"""Bits of ``ndarray.flags.num``, as NumPy's C API defines them."""
_IN_ORDER = _CONTIGUOUS | _ALIGNED
OWNED_FLAGS = _IN_ORDER | _OWNDATA | _WRITEABLE
"""Flags of an array that can be read and written and that shares its memory with no other array
that has all of these flags."""
_REAL = "fiub"
"""NumPy's kinds of dtypes that convert to float32: floating, signed, unsigned, bool."""
_READ_ONLY_TOO = (1, 0)
"""The first version of DLPack whose tensors can say that they are read-only."""


def checked_view(argument: Argument, array: Any, kind: str) -> Any:
    """Return the array given for an argument as a tensor of tvm-ffi in the same memory.

    ``kind`` is the library's kind of device. Raises WrongShape, WrongDtype, WrongDevice,
    WrongLayout or another WrongArgument, which say how to mend it.
    """
    name, shape, dtype = argument.name, argument.shape, argument.dtype
    written = argument.role == "output"
    if not hasattr(array, "__dlpack__"):
        raise WrongArgument(
            f"{name} must be a NumPy array, a PyTorch tensor or another DLPack tensor, "
            f"but is a {type(array).__name__}"
        )
    if tuple(array.shape) != shape:
        raise WrongShape(f"{name} must have shape {shape}, but has {tuple(array.shape)}")
    given = str(array.dtype).removeprefix("torch.")
    if given != dtype:
        way_out = _conversion_hint(dtype, array, written)
        raise WrongDtype(f"{name} must be {dtype}, but is {given}; {way_out}")
    needs_grad = is_torch(array) and array.requires_grad
    if needs_grad and torch_transforms.records_gradients(sys.modules["torch"]):
        raise WrongArgument(
            f"{name} requires grad, but a compiled library gives no gradients; pass {name}.detach()"
        )
    if is_torch(array) and array.is_neg():  # PyTorch exports the memory, but not the sign
        raise WrongLayout(f"{name} is a negated view; pass {name}.resolve_neg()")
    lost = torch_transforms.unsupported_reason(array) if is_torch(array) else None
    if lost:
        raise WrongArgument(f"{name} can't go to a compiled library: {lost}")
    if is_torch(array) and array.device.type == "meta":  # without data, it has no view
        raise WrongDevice(f"{name} must be on {kind}, but is on meta; give a tensor with data")
    try:
        view = shared_view(array, written)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        way_out = "give another" if written else "pass a copy"
        raise WrongLayout(f"{name} can't be passed on as it is, {way_out}: {reason}") from error
    if view.device.type != kind:
        raise WrongDevice(f"{name} must be on {kind}, but is on {view.device}; move it there")
    if not view.is_contiguous():
        way_out = "give a contiguous one" if written else "pass a contiguous copy"
        raise WrongLayout(
            f"{name} must be contiguous, but has strides {tuple(view.strides)}; {way_out}"
        )
    return view


def cast(array: Any, dtype: str) -> Any:
    """Return a contiguous copy of the array in that dtype, if it can be converted.

    An array of NumPy or PyTorch with another real dtype can. Any other array is returned unchanged.
    """
    if not _castable(array) or str(array.dtype).removeprefix("torch.") == dtype:
        return array
    if isinstance(array, np.ndarray):
        return array.astype(in_numpy(dtype), order="C")
    torch = sys.modules["torch"]
    return array.to(getattr(torch, dtype), memory_format=torch.contiguous_format)


def fast_arguments(
    arguments: tuple[Any, ...],
    written: int,
    sizes: tuple[int, ...],
    plain_and_apart: Callable[..., bool],
) -> tuple[Any, ...] | None:
    """Return the arguments in a form that needs no further checks before the call, or None.

    The last ``written`` arguments are the outputs; ``sizes`` are the bytes of every argument. The
    library itself still checks shapes and dtypes. NumPy arrays are returned if they are contiguous,
    aligned and no output shares memory with another argument; read-only inputs are converted to
    tensors. PyTorch tensors are returned if ``plain_and_apart(torch, arguments, sizes)`` says that
    they are plain and no output shares memory. None means that :func:`checked_view` must check each
    argument.
    """
    if isinstance(arguments[-1], np.ndarray):
        return _fast_numpy_arguments(arguments[:-written], arguments[-written:])
    torch = sys.modules.get("torch")
    if torch is None or not plain_and_apart(torch, arguments, sizes):
        return None
    return arguments


def _fast_numpy_arguments(
    given: tuple[Any, ...], outputs: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """Return NumPy arrays as :func:`fast_arguments` does."""
    array_type, overlap = np.ndarray, np.may_share_memory  # it compares the arrays' bounds only
    read = written = OWNED_FLAGS
    others = given
    for out in outputs:
        for array in others:
            if not isinstance(array, array_type) or overlap(array, out):
                return None
        written &= out.flags.num if isinstance(out, array_type) else 0
        others = (*others, out)
    for array in given:
        read &= array.flags.num
    if read & written & _IN_ORDER != _IN_ORDER or not written & _WRITEABLE:
        return None
    return (*given, *outputs) if read & _WRITEABLE else (*map(shared_view, given), *outputs)


def check_together(views: dict[str, Any], written: int) -> None:
    """Check the arguments of a call against each other. The last ``written`` are the outputs.

    Raises WrongDevice if they are not all on one device, and WrongLayout if an output shares memory
    with another argument.
    """
    (first, leader), *_ = views.items()
    for name, view in views.items():
        if view.device != leader.device:
            raise WrongDevice(
                f"{name} must be on {leader.device}, where {first} is, but is on {view.device}"
            )
    every = list(views.items())
    for number in range(len(every) - written, len(every)):
        output, out = every[number]
        for name, view in every[:number]:
            if _start(view) < _end(out) and _start(out) < _end(view):
                raise WrongLayout(f"{output} must not share memory with {name}; give it its own")


def new_workspace(array: Any, elements: int, kind: str) -> Any:
    """Return the workspace of a call: that number of float32 elements on the device of ``array``.

    PyTorch's allocator gives the memory to nobody else until the kernels queued on the current
    stream are done. If a CUDA graph is being captured, the memory is reserved as long as the graph
    lives. Raises WrongArgument if ``array`` is on a GPU and not PyTorch's.
    """
    if is_torch(array):
        torch = sys.modules["torch"]
        return torch.empty(elements, dtype=torch.float32, device=array.device)
    if kind == "cpu":
        return np.empty(elements, np.float32)
    raise WrongArgument(
        f"this library needs a workspace, and none can be made for a {type(array).__name__}; "
        "call it on PyTorch tensors"
    )


def empty_like(array: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array of the same library as ``array``, on the same device.

    Raises WrongArgument if ``array`` is neither NumPy's nor PyTorch's.
    """
    if isinstance(array, np.ndarray):
        return np.empty(shape, in_numpy(dtype))
    if is_torch(array):
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=array.device)
    raise WrongArgument(
        f"give the output too (out=…): none can be made for a {type(array).__name__}"
    )


def is_torch(array: Any) -> bool:
    """Return whether ``array`` is a PyTorch tensor. PyTorch is not imported."""
    torch = sys.modules.get("torch")  # a caller with a tensor has imported it
    return torch is not None and isinstance(array, torch.Tensor)


def shared_view(array: Any, written: bool = False) -> Any:
    """Return a tensor of tvm-ffi in the array's memory.

    ``written`` says whether it will be written: only then must a NumPy array be writeable.
    """
    import tvm_ffi

    source = bfloat16.Exported(array) if bfloat16.is_bfloat16(array) else array
    if isinstance(array, np.ndarray) and not (written or array.flags.writeable):
        return tvm_ffi.from_dlpack(source.__dlpack__(max_version=_READ_ONLY_TOO))
    return tvm_ffi.from_dlpack(source)


def _castable(array: Any) -> bool:
    """Return whether :func:`cast` can convert the array."""
    if isinstance(array, np.ndarray):
        return array.dtype.kind in _REAL or bfloat16.is_bfloat16(array)
    return is_torch(array) and not (array.is_complex() or array.is_quantized)


def _conversion_hint(dtype: str, array: Any, written: bool) -> str:
    """Return the end of an error message, which says how to get an array of that dtype."""
    if "complex" in str(array.dtype):
        return (
            "without an epilogue the operator is linear: call it on contiguous copies of the real "
            "and of the imaginary part, and put the two outputs together"
        )
    way = f"convert it to {dtype}"
    if not written and _castable(array):
        way += ", or call with cast=True, which copies it every time"
    return way


def _start(view: Any) -> int:
    """Return the address of a tensor's first byte."""
    return int(view.data_ptr())


def _end(view: Any) -> int:
    """Return the address behind a contiguous tensor's last byte."""
    return _start(view) + int(view.numel()) * BYTES_PER_ELEMENT[str(view.dtype)]
