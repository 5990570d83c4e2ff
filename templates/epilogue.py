"""Epilogue of a convolution: the bias, residual and activation of its sums."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from templates.argument import Argument
from templates.workload import AddedLater, Workload

Activation = Literal["none", "relu", "relu6", "silu", "gelu", "hardswish"]


class WithEpilogue(Workload):
    """A workload with an epilogue: output = activation(sums + bias + residual).

    The epilogue is computed in float32, and its result is stored once.
    """

    bias: Annotated[bool, AddedLater()] = Field(
        False, description="whether a number for each output channel is added to its sums"
    )
    residual: Annotated[bool, AddedLater()] = Field(
        False, description="whether a tensor of the output's shape is added, after the bias"
    )
    activation: Annotated[Activation, AddedLater()] = Field(
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
        """Return the part of ``max_error`` that sums of ``taps`` terms may use.

        It is relative to the largest sum. relu6 cuts the sums off at 6 but not their errors, and on
        normally distributed input the sums reach 5 sqrt(taps). So with relu6 the sums must be more
        exact by the ratio of the two.
        """
        share = 6 / (5 * math.sqrt(taps)) if self.activation == "relu6" else 1.0
        return self.max_error * min(1.0, share)

    def epilogue_arguments(self, output: Argument, channels: int) -> tuple[Argument, ...]:
        """Return the arguments that are added to the sums: the bias, then the residual."""
        return (
            *([Argument("bias", (channels,), self.dtype, "bias")] if self.bias else []),
            *(
                [Argument("residual", output.shape, self.dtype, "residual", output.layout)]
                if self.residual
                else []
            ),
        )
