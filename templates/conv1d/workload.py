"""The shape of a 1-D convolution and its limits."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from templates.argument import Argument
from templates.epilogue import WithEpilogue
from templates.workload import Whole

MAX_INPUT = 2**24
MAX_TAPS = 2**16
MAX_FLOPS = 2**40
_SWAP = {
    "convolve": "swap input and kernel",
    "correlate": "swap input and kernel and reverse the output",
}


Mode = Literal["full", "same", "valid", "causal"]


def padding(mode: Mode, taps: int) -> tuple[int, int]:
    """Zeros before and behind the input."""
    return {
        "full": (taps - 1, taps - 1),
        "same": (taps // 2, taps - 1 - taps // 2),
        "valid": (0, 0),
        "causal": (taps - 1, 0),
    }[mode]


class Conv1dWorkload(WithEpilogue):
    """``numpy.convolve`` or ``numpy.correlate`` of ``M`` samples with ``N`` taps. Mode causal is
    the first M outputs of full, none of which depends on a later sample."""

    operator: ClassVar[str] = "conv1d"

    M: Whole = Field(ge=1, le=MAX_INPUT, description="input length in samples")
    N: Whole = Field(ge=1, le=MAX_TAPS, description="kernel length in taps; at most M")
    mode: Mode = Field(
        "full", description="as in numpy.convolve, or causal: the first M outputs of full"
    )
    kind: Literal["convolve", "correlate"] = Field(
        "convolve", description="convolve flips the kernel, correlate does not"
    )

    @model_validator(mode="after")
    def _within_limits(self) -> Conv1dWorkload:
        if self.N > self.M:
            raise PydanticCustomError(
                "N_over_M",
                "N must be at most M = {M}, but it is {N}; {swap}, or pad the input",
                {"M": self.M, "N": self.N, "field": "N", "swap": _SWAP[self.kind]},
            )
        if self.flops > MAX_FLOPS:
            raise PydanticCustomError(
                "too_much_work",
                "2*L*N must be at most 2^40 for output length L, but L = {L} and N = {N}; "
                "split the input into overlapping pieces",
                {"L": self.length, "N": self.N, "field": "M"},
            )
        return self

    @property
    def length(self) -> int:
        """Output length L."""
        return self.M + sum(self.pads) - self.N + 1

    @property
    def pads(self) -> tuple[int, int]:
        """Zeros before and behind the input."""
        return padding(self.mode, self.N)

    @property
    def left(self) -> int:
        """Zeros before the first input sample that output 0 reaches: in correlation form
        y[i] = sum over t of x[i + t - left] * u[t]."""
        return self.pads[0]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        output = Argument("output", (self.length,), self.dtype, "output")
        return (
            Argument("input", (self.M,), self.dtype, "input"),
            Argument("weight", (self.N,), self.dtype, "weight"),
            *self.added(output, channels=1),
            output,
        )

    @property
    def taps(self) -> int:
        return self.N
