"""Where the passes of a transform find and leave their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.conv1d.cpu.schedules.radix import Complex
from templates.kernels.conversions import narrowed, widened


@dataclass(frozen=True)
class Rows:
    """Complex rows in a flat buffer, all distances in floats: ``row`` from one to the next,
    ``leg`` between the inputs of a butterfly, ``imaginary`` from a real part to its other
    (None: that is zero). Values are float32, whatever the buffer holds."""

    buffer: Any
    start: Any
    row: int
    leg: int
    imaginary: int | None
    limit: int | None = None
    """Stores from this row on are left out."""

    def move(self, rows: Any) -> Rows:
        """The same, so many rows further on. Emits the address, for all legs to share."""
        return replace(self, start=ir.Bind(self.start + rows * self.row))

    def load(self, leg: int, lane: Any) -> Complex:
        place = self.start + leg * self.leg + lane
        zero = tirx.const(0.0, "float32")
        re = self._load(place)
        return re, zero if self.imaginary is None else self._load(place + self.imaginary)

    def store(self, j: Any, leg: int, lane: Any, value: Complex) -> None:
        """Into row j + leg * (rows of a leg); ``start`` has been moved by j already."""
        before = leg * (self.leg // self.row)
        after = before + self.leg // self.row
        if self.limit is None or after <= self.limit:
            self._store(leg, lane, value)
        elif before < self.limit:
            with ir.If(j < self.limit - before), ir.Then():
                self._store(leg, lane, value)

    def _load(self, place: Any) -> Any:
        return ir.Bind(widened(self.buffer[place], str(self.buffer.dtype)))

    def _store(self, leg: int, lane: Any, value: Complex) -> None:
        place = self.start + leg * self.leg + lane
        dtype = str(self.buffer.dtype)
        ir.buffer_store(self.buffer, narrowed(value[0], dtype), [place])
        ir.buffer_store(self.buffer, narrowed(value[1], dtype), [place + self.imaginary])
