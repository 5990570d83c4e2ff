"""What is done to a convolution's sums before they are stored: bias, residual and activation."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from templates.argument import Argument
from templates.workload import Later, Workload

Activation = Literal["none", "relu", "relu6", "silu", "gelu", "hardswish"]


class WithEpilogue(Workload):
    """output = activation(sums + bias + residual), in float32, as the only store."""

    bias: Annotated[bool, Later()] = Field(
        False, description="whether a number for each output channel is added to its sums"
    )
    residual: Annotated[bool, Later()] = Field(
        False, description="whether a tensor of the output's shape is added, after the bias"
    )
    activation: Annotated[Activation, Later()] = Field(
        "none",
        description="applied last, as in torch.nn.functional: none, relu, relu6, silu, gelu "
        "(the exact one) or hardswish",
    )

    @property
    def has_epilogue(self) -> bool:
        return self.bias or self.residual or self.activation != "none"

    @property
    def is_plain(self) -> bool:
        return not self.has_epilogue

    def error_of_sums(self, taps: int) -> float:
        """What max_error leaves to sums of so many taps, relative to the largest. relu6 cuts them
        off at 6, but not their errors, and on normal input they reach 5 sqrt(taps)."""
        share = 6 / (5 * math.sqrt(taps)) if self.activation == "relu6" else 1.0
        return self.max_error * min(1.0, share)

    def added(self, output: Argument, channels: int) -> tuple[Argument, ...]:
        """The arguments that are added to the sums, in the order in which they are."""
        return (
            *([Argument("bias", (channels,), self.dtype, "bias")] if self.bias else []),
            *(
                [Argument("residual", output.shape, self.dtype, "residual", output.layout)]
                if self.residual
                else []
            ),
        )
