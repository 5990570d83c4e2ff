"""NumPy arrays of bfloat16 as DLPack tensors. NumPy itself can't export them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

NAME = "bfloat16"
_CODE = 4
"""The value kDLBfloat of DLPack's DLDataTypeCode."""
_TYPE_IN_TENSOR = 20
"""Offset of the type in a DLTensor, in bytes. The address of the data, the device's type and id and
the number of axes come before it."""
_TENSOR_IN_CAPSULE = {b"dltensor": 0, b"dltensor_versioned": 32}
"""Offset of the DLTensor in bytes, by the capsule's name. In the second kind the version, the
manager's context and deleter, and the flags come before the DLTensor."""


def is_bfloat16(array: Any) -> bool:
    """Return whether ``array`` is a NumPy array of bfloat16."""
    # the kind is compared first, because NumPy composes the name anew each time
    return isinstance(array, np.ndarray) and array.dtype.kind == "V" and array.dtype.name == NAME


class Exported:
    """A NumPy array of bfloat16 for readers of DLPack, in the same memory.

    It exports the array as 16-bit integers and changes the type in the DLPack tensor before anybody
    reads it.
    """

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
    """Return a function of Python's C API whose first parameter is an object."""
    return ctypes.PYFUNCTYPE(result, ctypes.py_object, *more)((name, ctypes.pythonapi))


_capsule_name = _api("PyCapsule_GetName", ctypes.c_char_p)
_capsule_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_char_p)
