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


def fit_at_once(
    arrays: tuple[Any, Any, Any], shapes: tuple[tuple[int, ...], ...], dtype: str, kind: str
) -> bool:
    """Whether input, weight and output are NumPy arrays or PyTorch tensors that fit, found in a
    microsecond. Where it is not so, the checks below say what is wrong, if anything is."""
    first, weight, output = arrays
    if type(first) is np.ndarray:
        return (
            kind == "cpu"
            and all(
                type(array) is np.ndarray
                and array.shape == shape
                and array.dtype == dtype
                and array.flags.carray  # contiguous, aligned, writable
                for array, shape in zip(arrays, shapes, strict=True)
            )
            and not np.may_share_memory(first, output)  # by their bounds
            and not np.may_share_memory(weight, output)
        )
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    tensor, wanted = torch.Tensor, getattr(torch, dtype)
    device: Any = getattr(first, "device", None)
    for array, shape in zip(arrays, shapes, strict=True):
        if not (
            type(array) is tensor
            and array.shape == shape
            and array.dtype is wanted
            and array.device == device
            and array.is_contiguous()
            and not array.requires_grad
            and not array.is_neg()
        ):
            return False
    start, size = output.data_ptr(), output.nbytes
    return (
        device.type == kind
        and not start - first.nbytes < first.data_ptr() < start + size
        and not start - weight.nbytes < weight.data_ptr() < start + size
    )


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
