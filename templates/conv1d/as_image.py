"""Signals as images of one column or one row, for templates of depthwise convolution."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import Field

from templates.argument import Argument
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import (
    MAX_KERNEL,
    MAX_REACH,
    DepthwiseConv2dWorkload,
)

MAX_STRIDE = 4  # of depthwise convolution
SHARED = ("dtype", "max_error", "bias", "residual", "activation", "direction")


class SignalsAsImage(DepthwiseConv2dWorkload):
    """A conv1d workload in the form of a depthwise convolution, for that operator's templates.

    The arguments and the order of the taps are those of ``signals``, the conv1d workload. Fields
    are not validated, so they may exceed the limits of depthwise convolution.
    """

    signals: Conv1dWorkload = Field()

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.signals.arguments

    @property
    def is_flipped(self) -> bool:
        return self.signals.kind == "convolve"

    @cached_property
    def as_forward(self) -> Any:
        """The conv1d workload ``signals.as_forward``. It may exceed the limits of an image."""
        return self.signals.as_forward


def as_column_image(workload: Conv1dWorkload) -> SignalsAsImage:
    """Return the image of one column for a channels-last workload that is not dense."""
    before, behind = workload.pads
    shape = {"H": workload.M, "W": 1, "KH": workload.N, "KW": 1}
    return _as_image(workload, **shape, padding=(before, 0, behind, 0), layout="NHWC")


def as_row_image(workload: Conv1dWorkload) -> SignalsAsImage:
    """Return the image of one row for a workload of either layout that is not dense."""
    before, behind = workload.pads
    shape = {"H": 1, "W": workload.M, "KH": 1, "KW": workload.N}
    layout = "NHWC" if workload.layout == "NWC" else "NCHW"
    return _as_image(workload, **shape, padding=(0, before, 0, behind), layout=layout)


def _as_image(workload: Conv1dWorkload, **fields: Any) -> SignalsAsImage:
    """Return the workload as an image; ``fields`` are its H, W, KH, KW, padding and layout."""
    fields |= {
        "B": workload.B,
        "C": workload.C,
        "stride": workload.stride,
        "dilation": workload.dilation,
        "multiplier": workload.multiplier,
        **{name: getattr(workload, name) for name in SHARED},
    }
    return SignalsAsImage.model_construct(signals=workload, **fields)


def has_image(workload: Conv1dWorkload) -> bool:
    """Return whether kernel and stride are within depthwise convolution's limits."""
    known = workload.N <= MAX_KERNEL and workload.stride <= MAX_STRIDE
    return known and workload.span - 1 <= MAX_REACH
