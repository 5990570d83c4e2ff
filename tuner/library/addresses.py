"""Calling a library by the addresses of its tensors. tuner/build/addresses.c is the other side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from templates.argument import Argument
from templates.dtypes import BYTES_PER_ELEMENT

_CODES = {"float32": 2, "float16": 2, "bfloat16": 4}
"""By dtype, DLPack's code of its kind of number."""


def call_of(module: Any, arguments: Sequence[Argument]) -> Callable[..., object] | None:
    """Return the kernel of a loaded library as a function of addresses, in the arguments' order.

    Each address must be that of a contiguous tensor on the CPU, with the argument's shape and
    dtype: nothing is checked. Return None if the library has no such function, because it is for a
    GPU or of an earlier release, or if it has too many arguments or axes for it.
    """
    if not module.implements_function("describe"):
        return None
    describe = module["describe"]
    for number, argument in enumerate(arguments):
        kind = _CODES[argument.dtype], 8 * BYTES_PER_ELEMENT[argument.dtype]
        if describe(number, *kind, *argument.shape) != 0:
            return None
    call: Callable[..., object] = module["at"]
    return call
