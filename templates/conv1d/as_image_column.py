"""ByColumn: depthwise convolution's templates, applied to channels-last signals as one-column
images."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from pydantic import Field

from templates.argument import Argument
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import (
    MAX_KERNEL,
    MAX_REACH,
    DepthwiseConv2dWorkload,
)
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

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
        """``signals.as_forward``, a conv1d workload, which may be larger than an image may be."""
        return self.signals.as_forward


def as_column_image(workload: Conv1dWorkload) -> SignalsAsImage:
    """Return a channels-last workload that is not dense as an image of one column."""
    before, behind = workload.pads
    shape = {"H": workload.M, "W": 1, "KH": workload.N, "KW": 1}
    return as_image(workload, **shape, padding=(before, 0, behind, 0), layout="NHWC")


def as_image(workload: Conv1dWorkload, **fields: Any) -> SignalsAsImage:
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


class ByColumn(Template[Conv1dWorkload]):
    """A template of depthwise convolution, applied to signals as images of one column.

    Each row of the image is a sample. It is for layout NWC, if channels are not dense. Subclasses
    set ``template``.
    """

    template: ClassVar[Template[Any]]

    def image(self, workload: Conv1dWorkload) -> SignalsAsImage:
        return as_column_image(workload)

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        fits = workload.layout == "NWC" and not workload.is_dense
        return fits and self.template.applies(self.image(workload), limits)

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        return self.template.space(self.image(workload), limits)

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.template.default(self.image(workload), limits)

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return self.template.features(self.image(workload), config, limits)

    def computation(self, workload: Conv1dWorkload, config: Config) -> Any:
        return self.template.computation(self.image(workload), config)

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        return self.template.schedule(self.image(workload), config)


class GradientByColumn(ByColumn):
    """A gradient template of depthwise convolution, applied to signals as images of one column, if
    kernel and stride are within that operator's limits."""

    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return has_image(workload) and super().applies(workload, limits)


def has_image(workload: Conv1dWorkload) -> bool:
    """Return whether kernel and stride are within depthwise convolution's limits."""
    known = workload.N <= MAX_KERNEL and workload.stride <= MAX_STRIDE
    return known and workload.span - 1 <= MAX_REACH
