"""Values of programs in float32 and back in the dtype of a workload. Imports TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx


def widened(value: Any, dtype: str, lanes: int = 1) -> Any:
    """The value of that dtype, or a vector of them, in float32. bfloat16 is the first 16 bits of
    that: in the value of a variable TVM mistakes a cast from it for one from an integer."""
    many = f"x{lanes}" if lanes > 1 else ""
    if dtype != "bfloat16":
        return value.astype(f"float32{many}")
    shift = tirx.const(16, "uint32")
    bits = tirx.reinterpret(f"uint16{many}", value).astype(f"uint32{many}")
    shifted = bits << (tirx.Broadcast(shift, lanes) if lanes > 1 else shift)
    return tirx.reinterpret(f"float32{many}", shifted)


def narrowed(value: Any, dtype: str) -> Any:
    """The float32 value in that dtype. To bfloat16 it is rounded here: what TVM makes of such a
    cast has the value several times, and later passes refuse, or mistake, variables bound in
    it."""
    if dtype != "bfloat16":
        return value.astype(dtype)

    def nearest(bits: Any) -> Any:
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # of two equally near the even one
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        kept = tirx.Select(is_nan, tirx.const(0x7FFF, "uint32"), rounded)
        return tirx.reinterpret("bfloat16", kept.astype("uint16"))

    return let(tirx.reinterpret("uint32", value), nearest, "uint32")


def let(value: Any, body: Callable[[Any], Any], dtype: str = "float32") -> Any:
    """``body(value)``, the value, which is of that dtype, computed once."""
    name = tirx.Var("v", dtype)
    return tirx.Let(name, value, body(name))
