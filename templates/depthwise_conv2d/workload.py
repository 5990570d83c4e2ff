"""Workloads of depthwise 2-D convolution, and their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from templates.argument import Argument
from templates.ceil_div import ceil_div
from templates.gradients import WithGradients
from templates.workload import AddedLater, Digits, Extent, is_absent, numbers_of

MAX_KERNEL = 63
MAX_REACH = 1023
MAX_PADDING = 1023
MAX_MULTIPLIER = 2**16
MAX_BYTES = 2**31
T = TypeVar("T")
SIDES = ("top", "left", "bottom", "right")


Side = Annotated[int, Field(ge=0, le=MAX_PADDING)]
Kernel = Annotated[int, Field(ge=1, le=MAX_KERNEL), Digits]


@dataclass(frozen=True)
class Taps:
    """The used taps along an axis: ``count`` taps from tap ``first`` on, ``step`` elements apart.

    The first used tap meets the element that lies ``before`` elements ahead of the first output's
    own element, or behind it if ``before`` is negative.
    """

    first: int
    count: int
    step: int
    before: int

    @property
    def span(self) -> int:
        """Return the elements from the first tap to the last."""
        return (self.count - 1) * self.step + 1


class DepthwiseConv2dWorkload(WithGradients):
    """PyTorch's ``conv2d`` with ``groups = C``.

    The shapes are: input (B, C, H, W), weight (C * multiplier, 1, KH, KW), output (B, C *
    multiplier, Ho, Wo). In layout NHWC input and output have their channels last; the weight has
    the same shape.
    """

    operator: ClassVar[str] = "depthwise_conv2d"

    B: Extent = Field(description="batch")
    C: Extent = Field(description="channels")
    H: Extent = Field(description="input height")
    W: Extent = Field(description="input width")
    K: Annotated[Kernel | None, AddedLater()] = Field(
        None,
        description="kernel height and width; if they differ, give KH and KW instead",
        exclude_if=is_absent,
    )
    KH: Annotated[Kernel | None, AddedLater()] = Field(
        None, description="kernel height", exclude_if=is_absent
    )
    KW: Annotated[Kernel | None, AddedLater()] = Field(
        None, description="kernel width", exclude_if=is_absent
    )
    stride: Annotated[Literal[1, 2, 3, 4], Digits] = Field(
        1, description="output stride in both directions"
    )
    padding: Annotated[
        tuple[Side, Side, Side, Side] | None,
        BeforeValidator(numbers_of(*SIDES, most=MAX_PADDING)),
        PlainSerializer(list),
        AddedLater(),
    ] = Field(
        None,
        description="zeros at the top, left, bottom and right, such as 1,1,1,1; by default half "
        "the kernel's height and width, rounded down",
        exclude_if=is_absent,
    )
    dilation: Annotated[int, Field(ge=1, le=MAX_REACH), Digits, AddedLater()] = Field(
        1, description="elements from one tap to the next, in both directions"
    )
    multiplier: Annotated[int, Field(ge=1, le=MAX_MULTIPLIER), Digits, AddedLater()] = Field(
        1, description="output channels for each input channel"
    )
    layout: Annotated[Literal["NCHW", "NHWC"], AddedLater()] = Field(
        "NCHW", description="order of the axes of input and output: NCHW, or NHWC (channels last)"
    )
    direction: Annotated[Literal["forward", "backward_input", "backward_weight"], AddedLater()] = (
        Field(
            "forward",
            description="forward: the convolution; backward_input: the gradient of its input; "
            "backward_weight: the gradient of its weight, and of its bias if it has one",
        )
    )

    @model_validator(mode="after")
    def _one_form(self) -> DepthwiseConv2dWorkload:
        """Normalise the fields, so that equal workloads have equal keys.

        A square kernel has K, and the usual padding is left out.
        """
        both = (self.KH, self.KW)
        if (self.K is None) == (both == (None, None)) or (self.K is None and None in both):
            raise PydanticCustomError(
                "kernel_size",
                "give K, the kernel's height and width, or both KH and KW",
                {"field": "K"},
            )
        if self.KH is not None and self.KH == self.KW:
            self._set(K=self.KH, KH=None, KW=None)
        height, width = self.kernel
        if self.padding == (height // 2, width // 2, height // 2, width // 2):
            self._set(padding=None)
        return self

    @model_validator(mode="after")
    def _within_limits(self) -> DepthwiseConv2dWorkload:
        """Refuse a shape that has no output, reaches too far or has tensors that are too large."""
        top, left, bottom, right = self.pads
        height, width = self.kernel
        for padded, taps in ((self.H + top + bottom, height), (self.W + left + right, width)):
            reach = (taps - 1) * self.dilation
            if reach > MAX_REACH:
                raise PydanticCustomError(
                    "too_far",
                    "dilation times (kernel size - 1) must be at most {limit}, but it is {reach}; "
                    "take a smaller dilation",
                    {"limit": MAX_REACH, "reach": reach, "field": "dilation"},
                )
            if reach >= padded:
                raise PydanticCustomError(
                    "no_output",
                    "the kernel spans {span} elements, but input and padding have {padded}; "
                    "pad more, or take a smaller kernel or dilation",
                    {"span": reach + 1, "padded": padded, "field": "padding"},
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
    def is_basic(self) -> bool:
        """Return whether this is the form for which most templates of planes are written.

        It has an odd square kernel with the usual padding, stride 1 or 2, layout NCHW, and neither
        dilation nor multiplier.
        """
        return (
            self.K is not None
            and self.K % 2 == 1
            and self.stride <= 2
            and self.padding is None
            and (self.dilation, self.multiplier, self.layout) == (1, 1, "NCHW")
        )

    @property
    def is_plain(self) -> bool:
        return self.is_basic and not self.is_flipped and super().is_plain

    @property
    def kernel(self) -> tuple[int, int]:
        """Return the kernel's height and width."""
        if self.K is not None:
            return self.K, self.K
        return self.KH or 0, self.KW or 0

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """Return the zeros at the top, left, bottom and right."""
        height, width = self.kernel
        return self.padding or (height // 2, width // 2, height // 2, width // 2)

    def reduced_to(self, signals: int, channels: int) -> Self:
        if signals < self.B:
            return self._with(B=signals)
        first = self.B == 1 and self.layout == "NCHW" and not self.is_flat
        return self._with(C=channels) if first and channels < self.C else self

    @property
    def out_channels(self) -> int:
        return self.C * self.multiplier

    @cached_property
    def out_height(self) -> int:
        return self.last_window[0] // self.stride + 1

    @cached_property
    def out_width(self) -> int:
        return self.last_window[1] // self.stride + 1

    @property
    def arguments(self) -> tuple[Argument, ...]:
        inside = self.place(self.B, self.C, self.H, self.W)
        outside = self.place(self.B, self.out_channels, self.out_height, self.out_width)
        output = Argument("output", outside, self.dtype, "output", self.layout)
        return self.in_direction(
            Argument("input", inside, self.dtype, "input", self.layout),
            Argument("weight", (self.out_channels, 1, *self.kernel), self.dtype, "weight", "OIHW"),
            output,
        )

    @cached_property
    def used_taps(self) -> tuple[Taps, Taps]:
        """Return the rows and the columns of taps that meet the input somewhere.

        It is one row or column if none of them does. The outer taps of a kernel that is larger than
        the plane meet only padding.
        """
        top, left, _, _ = self.pads
        rows, columns = self.last_window
        return (
            _used(self.H, self.kernel[0], self.dilation, top, rows),
            _used(self.W, self.kernel[1], self.dilation, left, columns),
        )

    @cached_property
    def used_kernel(self) -> tuple[int, int]:
        """Return how many rows and columns of taps meet the input somewhere."""
        rows, columns = self.used_taps
        return rows.count, columns.count

    @property
    def is_flipped(self) -> bool:
        """Return whether the weight has its taps from the last to the first."""
        return False

    def tap(self, row: T, column: T) -> tuple[Any, Any]:
        """Return the row and column in the weight of the tap at that row and column of a window."""
        if not self.is_flipped:
            return row, column
        height, width = self.kernel
        return height - 1 - row, width - 1 - column  # type: ignore[operator]  # as numbers are

    @property
    def taps(self) -> int:
        if self.direction == "backward_weight":
            return self.B * self.out_height * self.out_width
        height, width = self.kernel
        if self.direction == "backward_input":
            met = self.stride // math.gcd(self.stride, self.dilation)
            return self.multiplier * ceil_div(height, met) * ceil_div(width, met)
        return height * width

    @cached_property
    def as_forward(self) -> Flipped | None:
        """Return the convolution that computes this gradient of an input; None if there is none.

        It convolves the output's gradient with the reversed taps. That needs stride 1, one kernel
        for each channel and no activation. Padding must not exceed the kernel's reach, because
        otherwise the convolution would begin within the gradient.
        """
        height, width = ((taps - 1) * self.dilation for taps in self.kernel)
        top, left, bottom, right = self.pads
        sides = (height - top, width - left, height - bottom, width - right)
        steps = (self.stride, self.multiplier, self.activation)
        if self.direction != "backward_input" or steps != (1, 1, "none") or min(sides) < 0:
            return None
        shared = self.model_dump(include={"B", "C", "K", "KH", "KW", "dilation", "layout"})
        return Flipped(
            **shared,
            H=self.out_height,
            W=self.out_width,
            padding=sides,
            dtype=self.dtype,
            max_error=self.max_error,
        )

    def place(self, b: T, c: T, i: T, j: T) -> tuple[T, T, T, T]:
        """Return batch, channel, row and column in the order of the layout."""
        return (b, i, j, c) if self.layout == "NHWC" else (b, c, i, j)

    def axes(self, place: Sequence[T]) -> tuple[T, T, T, T]:
        """Return the batch, channel, row and column of a place in the layout's order."""
        b, c, i, j = place
        return (b, j, c, i) if self.layout == "NHWC" else (b, c, i, j)

    @cached_property
    def last_window(self) -> tuple[int, int]:
        """Return the row and column in the padded input at which the last window begins.

        This is the last window at stride 1, whatever the workload's stride.
        """
        top, left, bottom, right = self.pads
        height, width = ((taps - 1) * self.dilation for taps in self.kernel)
        return self.H + top + bottom - height - 1, self.W + left + right - width - 1


class Flipped(DepthwiseConv2dWorkload):
    """A workload whose weight has its taps from the last to the first."""

    @property
    def is_flipped(self) -> bool:
        return True


def _used(extent: int, taps: int, step: int, before: int, last_window: int) -> Taps:
    first = min(max(0, ceil_div(before - last_window, step)), taps - 1)
    last = min(taps - 1, (extent - 1 + before) // step)
    return Taps(first, max(1, last - first + 1), step, before - first * step)
