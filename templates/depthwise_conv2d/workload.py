"""The shape of a depthwise 2-D convolution and its limits."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from templates.argument import Argument
from templates.epilogue import WithEpilogue
from templates.workload import Digits, Extent, Whole

MAX_KERNEL = 63
MAX_BYTES = 2**31


class DepthwiseConv2dWorkload(WithEpilogue):
    """PyTorch's ``conv2d`` with ``groups = C``: input (B, C, H, W), weight (C, 1, K, K),
    padding ``K // 2`` on every side."""

    operator: ClassVar[str] = "depthwise_conv2d"

    B: Extent = Field(description="batch")
    C: Extent = Field(description="channels")
    H: Extent = Field(description="input height")
    W: Extent = Field(description="input width")
    K: Whole = Field(ge=1, le=MAX_KERNEL, description="kernel height and width; odd")
    stride: Annotated[Literal[1, 2], Digits] = Field(
        1, description="output stride in both directions"
    )

    @model_validator(mode="after")
    def _within_limits(self) -> DepthwiseConv2dWorkload:
        if self.K % 2 == 0:
            raise PydanticCustomError(
                "even_K",
                "K must be odd, but it is {K}; pad the kernel with a row and a column of zeros",
                {"K": self.K, "field": "K"},
            )
        if self.bytes > MAX_BYTES:
            raise PydanticCustomError(
                "too_many_bytes",
                "all tensors must be at most 2^31 bytes together, "
                "but they are {bytes}; split the batch or the channels",
                {"bytes": self.bytes, "field": "B"},
            )
        return self

    @property
    def out_height(self) -> int:
        return (self.H - 1) // self.stride + 1

    @property
    def out_width(self) -> int:
        return (self.W - 1) // self.stride + 1

    @property
    def arguments(self) -> tuple[Argument, ...]:
        inside = (self.B, self.C, self.H, self.W)
        outside = (self.B, self.C, self.out_height, self.out_width)
        output = Argument("output", outside, self.dtype, "output", "NCHW")
        return (
            Argument("input", inside, self.dtype, "input", "NCHW"),
            Argument("weight", (self.C, 1, self.K, self.K), self.dtype, "weight", "OIHW"),
            *self.added(output, self.C),
            output,
        )

    @property
    def near(self) -> tuple[int, int]:
        """Height and width of the kernel's middle part; taps further out, of a kernel larger than
        the plane, only ever meet padding."""
        return min(self.K, 2 * self.H - 1), min(self.K, 2 * self.W - 1)

    @property
    def taps(self) -> int:
        return self.K * self.K
