"""What a library is called on: arrays of any library that speaks DLPack, checked before a call."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tuner.errors import WrongArgument, WrongDevice, WrongDtype, WrongLayout, WrongShape


def viewed(name: str, array: Any, shape: tuple[int, ...], dtype: str, kind: str) -> Any:
    """The array as a tensor of tvm-ffi in the same memory. Raises a WrongArgument."""
    import tvm_ffi

    if not hasattr(array, "__dlpack__"):
        raise WrongArgument(
            f"{name} must be a NumPy array, a PyTorch tensor or another DLPack tensor, "
            f"but is a {type(array).__name__}"
        )
    if tuple(array.shape) != shape:
        raise WrongShape(f"{name} must have shape {shape}, but has {tuple(array.shape)}")
    given = str(array.dtype).removeprefix("torch.")
    if given != dtype:
        raise WrongDtype(f"{name} must be {dtype}, but is {given}; convert it to {dtype}")
    if is_torch(array) and array.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise WrongArgument(
            f"{name} requires grad, which a compiled library can't give; pass {name}.detach()"
        )
    if is_torch(array) and array.is_neg():  # PyTorch passes its memory on, without the sign
        raise WrongLayout(f"{name} is a negated view; pass {name}.resolve_neg()")
    try:
        view = tvm_ffi.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise WrongLayout(f"{name} can't be passed on as it is, pass a copy: {reason}") from error
    if view.device.type != kind:
        raise WrongDevice(f"{name} must be on {kind}, but is on {view.device}; move it there")
    if not view.is_contiguous():
        raise WrongLayout(
            f"{name} must be contiguous, but has strides {tuple(view.strides)}; "
            f"pass a contiguous copy"
        )
    return view


def plain_and_apart(arrays: tuple[Any, Any, Any], sizes: tuple[int, ...]) -> bool:
    """Whether input, weight and output are NumPy arrays or PyTorch tensors, of these very types,
    that a library may be called on as they are if it takes their shapes and dtypes, and the
    output shares no memory with the others if they have so many bytes."""
    first, weight, output = arrays
    if type(first) is np.ndarray:
        return (
            all(type(array) is np.ndarray and array.flags.carray for array in arrays)
            and not np.may_share_memory(first, output)  # by their bounds
            and not np.may_share_memory(weight, output)
        )
    torch = sys.modules.get("torch")
    if torch is None or not (type(first) is type(weight) is type(output) is torch.Tensor):
        return False
    if first.requires_grad or weight.requires_grad or output.requires_grad:
        return False
    if first.is_neg() or weight.is_neg() or output.is_neg():
        return False
    try:
        start, end = output.data_ptr(), output.data_ptr() + sizes[2]
        return (
            not start - sizes[0] < first.data_ptr() < end
            and not start - sizes[1] < weight.data_ptr() < end
        )
    except RuntimeError:  # of a sparse tensor, say, which has no such pointer
        return False


def check_together(views: dict[str, Any]) -> None:
    """All on one device; the last, which is written, apart from the others."""
    (first, leader), *_ = views.items()
    *inputs, (output, written) = views.items()
    for name, view in views.items():
        if view.device != leader.device:
            raise WrongDevice(
                f"{name} must be on {leader.device}, where {first} is, but is on {view.device}"
            )
    for name, view in inputs:
        if _start(view) < _end(written) and _start(written) < _end(view):
            raise WrongLayout(f"{output} must not share memory with {name}; give it its own")


def empty_like(array: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An uninitialised array of the same library, on the same device."""
    if isinstance(array, np.ndarray):
        return np.empty(shape, dtype)
    if is_torch(array):
        return array.new_empty(shape, dtype=getattr(sys.modules["torch"], dtype))
    raise WrongArgument(
        f"give the output too (out=…): none can be made for a {type(array).__name__}"
    )


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")  # who holds a tensor has imported it
    return torch is not None and isinstance(array, torch.Tensor)


def _start(view: Any) -> int:
    return int(view.data_ptr())


def _end(view: Any) -> int:
    return _start(view) + int(view.numel()) * np.dtype(str(view.dtype)).itemsize
