"""Argument: one tensor that a compiled function takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from templates.dtypes import BYTES_PER_ELEMENT

Role = Literal["input", "weight", "bias", "residual", "gradient", "sums", "output", "workspace"]

_SYMBOLS: dict[Role, str] = {
    "input": "x",
    "weight": "w",
    "bias": "b",
    "residual": "r",
    "gradient": "g",
    "sums": "z",
    "output": "y",
    "workspace": "workspace",
}
_SEVERAL = {"input_gradient": "dx", "weight_gradient": "dw", "bias_gradient": "db"}
"""Symbols of the outputs of a workload that has several, by argument name."""


@dataclass(frozen=True)
class Argument:
    """One tensor that a compiled function takes.

    ``name`` is the parameter by which a library takes it. ``layout`` is the order of its axes, such
    as "NCHW"; None if only one order is possible. Outputs and the workspace are written, all others
    are only read.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    layout: str | None = None

    @property
    def symbol(self) -> str:
        """Return the name in formulas, generated programs and examples, as in y = f(x, w)."""
        return _SEVERAL.get(self.name) or _SYMBOLS[self.role]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return BYTES_PER_ELEMENT[self.dtype] * self.elements


def workspace_of(elements: int) -> tuple[Argument, ...]:
    """Return the workspace argument of a program: float32, one-dimensional, after the outputs.

    Return an empty tuple if the program needs no elements.
    """
    if not elements:
        return ()
    return (Argument("workspace", (elements,), "float32", "workspace"),)
