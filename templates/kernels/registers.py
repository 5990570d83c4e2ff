"""Sums of a CPU's program that stay in vector registers. Imports TVM.

A buffer of scope ``local`` is allocated by a call of TVM's runtime, so LLVM must write its values
to memory. A buffer of scope ``global`` with less than 1024 bytes is on the stack, and LLVM turns it
into registers.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir


class Sums:
    """``count`` vectors of ``lanes`` float32 sums, each a buffer.

    A vector may be used only within a loop over all lanes, and in more than one such loop:
    otherwise TVM shrinks its buffer to one lane.
    """

    def __init__(self, count: int, lanes: int) -> None:
        self._vectors = [ir.sblock_alloc_buffer((lanes,), "float32") for _ in range(count)]
        self._lanes = lanes

    def zero(self) -> None:
        with ir.vectorized(0, self._lanes) as lane:
            for number in range(len(self._vectors)):
                self.store(number, lane, tirx.const(0.0, "float32"))

    def load(self, number: int, lane: Any) -> Any:
        return self._vectors[number][lane]

    def store(self, number: int, lane: Any, value: Any) -> None:
        ir.buffer_store(self._vectors[number], value, [lane])

    def add(self, number: int, lane: Any, value: Any) -> None:
        """Add a value to a lane of a vector."""
        self.store(number, lane, self.load(number, lane) + value)
