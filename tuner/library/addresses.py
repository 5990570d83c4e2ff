"""A library's call by the addresses of its tensors: tuner/build/addresses.c is its other end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from templates.argument import Argument
from templates.dtypes import BYTES_PER_ELEMENT

_CODES = {"float32": 2, "float16": 2, "bfloat16": 4}
"""DLPack's of each dtype's kind."""


def call_of(module: Any, arguments: Sequence[Argument]) -> Callable[..., object] | None:
    """The kernel as a function of addresses in the arguments' order, each that of a contiguous
    tensor of the argument's shape and dtype on the CPU: nothing is checked. None if a loaded
    library has no such function, as those of a GPU and of earlier releases."""
    if not module.implements_function("describe"):
        return None
    describe = module["describe"]
    for number, argument in enumerate(arguments):
        kind = _CODES[argument.dtype], 8 * BYTES_PER_ELEMENT[argument.dtype]
        if describe(number, *kind, *argument.shape) != 0:
            return None
    call: Callable[..., object] = module["at"]
    return call
