"""Conversions between float32 and a workload's dtype in TIR. Imports TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx


def widened(value: Any, dtype: str, lanes: int = 1) -> Any:
    """Return a value of this dtype, or a vector of ``lanes`` of them, as float32.

    A bfloat16 is the first 16 bits of the float32, so its bits are shifted into place. They are not
    cast, because TVM takes a cast from a variable of bfloat16 for a cast from an integer.
    """
    many = f"x{lanes}" if lanes > 1 else ""
    if dtype != "bfloat16":
        return value.astype(f"float32{many}")
    shift = tirx.const(16, "uint32")
    bits = tirx.reinterpret(f"uint16{many}", value).astype(f"uint32{many}")
    shifted = bits << (tirx.Broadcast(shift, lanes) if lanes > 1 else shift)
    return tirx.reinterpret(f"float32{many}", shifted)


def narrowed(value: Any, dtype: str) -> Any:
    """Return a float32 value in this dtype.

    The rounding to bfloat16, to nearest even, is written out here. TVM's own cast repeats the value
    several times, and its later passes refuse or mistake variables that are bound in the value.
    """
    if dtype != "bfloat16":
        return value.astype(dtype)

    def nearest(bits: Any) -> Any:
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # a tie goes to the even one
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        kept = tirx.Select(is_nan, tirx.const(0x7FFF, "uint32"), rounded)
        return tirx.reinterpret("bfloat16", kept.astype("uint16"))

    return let(tirx.reinterpret("uint32", value), nearest, "uint32")


def let(value: Any, body: Callable[[Any], Any], dtype: str = "float32") -> Any:
    """Return ``body(value)``, in which the value, of this dtype, is computed only once."""
    name = tirx.Var("v", dtype)
    return tirx.Let(name, value, body(name))
