"""ComplexRows: how the passes of a Fourier transform address complex rows in a buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.conv1d.cpu.schedules.radix import Complex
from templates.kernels.conversions import narrowed, widened


@dataclass(frozen=True)
class ComplexRows:
    """Complex rows in a flat buffer, from element ``start`` on.

    Distances are in elements: ``row`` from one row to the next, ``leg`` between the inputs of a
    butterfly, and ``imaginary`` from a real part to its imaginary part. If ``imaginary`` is None,
    imaginary parts are zero. Values are loaded as float32 and stored in the buffer's dtype.
    """

    buffer: Any
    start: Any
    row: int
    leg: int
    imaginary: int | None
    limit: int | None = None
    """Rows from this one on are not stored; None stores all."""

    def move(self, rows: Any) -> ComplexRows:
        """Return these rows, beginning ``rows`` rows further on. This emits their address as a
        variable that all legs share."""
        return replace(self, start=ir.Bind(self.start + rows * self.row))

    def load(self, leg: int, lane: Any) -> Complex:
        place = self.start + leg * self.leg + lane
        zero = tirx.const(0.0, "float32")
        re = self._load(place)
        return re, zero if self.imaginary is None else self._load(place + self.imaginary)

    def store(self, j: Any, leg: int, lane: Any, value: Complex) -> None:
        """Store ``value`` in row j + leg * (rows between legs). ``start`` must have been moved by j
        already."""
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
