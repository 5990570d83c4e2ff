"""NumPy's arrays of bfloat16 as DLPack tensors, which NumPy itself refuses to make of them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

NAME = "bfloat16"
_CODE = 4
"""kDLBfloat of DLPack's DLDataTypeCode."""
_TYPE_IN_TENSOR = 20
"""Bytes before a DLTensor's type: its data's address, its device's type and id, its rank."""
_TENSOR_IN_CAPSULE = {b"dltensor": 0, b"dltensor_versioned": 32}
"""By a capsule's name, bytes before the DLTensor: for the second the version, the manager's context
and deleter, and flags."""


def is_bfloat16(array: Any) -> bool:
    # the kind first: NumPy puts a name together each time
    return isinstance(array, np.ndarray) and array.dtype.kind == "V" and array.dtype.name == NAME


class Shared:
    """The same memory for whoever reads DLPack: NumPy's own tensor of 16-bit numbers, whose type is
    changed before anybody sees it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._bits = array.view(np.uint16)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._bits.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._bits.__dlpack__(**options)
        name = _capsule_name(capsule)
        start = _capsule_pointer(capsule, name) + _TENSOR_IN_CAPSULE[name]
        ctypes.c_uint8.from_address(start + _TYPE_IN_TENSOR).value = _CODE
        return capsule


def _api(name: str, result: Any, *more: Any) -> Any:
    """A function of Python's C API that takes an object first."""
    return ctypes.PYFUNCTYPE(result, ctypes.py_object, *more)((name, ctypes.pythonapi))


_capsule_name = _api("PyCapsule_GetName", ctypes.c_char_p)
_capsule_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_char_p)
