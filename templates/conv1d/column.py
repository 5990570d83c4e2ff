"""Signals with their channels last as images of one column, which templates of depthwise
convolution know."""

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


class Column(DepthwiseConv2dWorkload):
    """The workload as a depthwise convolution, of which only its tensors' ranks and the order of
    its taps differ. It may be larger than a workload of that operator."""

    signals: Conv1dWorkload = Field()

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.signals.arguments

    @property
    def is_flipped(self) -> bool:
        return self.signals.kind == "convolve"

    @cached_property
    def as_forward(self) -> Any:
        """That of the signals, which may be larger than an image."""
        return self.signals.as_forward


def column(workload: Conv1dWorkload) -> Column:
    """Of a workload with a kernel for each channel and its channels last."""
    before, behind = workload.pads
    shape = {"H": workload.M, "W": 1, "KH": workload.N, "KW": 1}
    return as_image(workload, **shape, padding=(before, 0, behind, 0), layout="NHWC")


def as_image(workload: Conv1dWorkload, **fields: Any) -> Column:
    """With the fields that say how signals lie in an image."""
    fields |= {
        "B": workload.B,
        "C": workload.C,
        "stride": workload.stride,
        "dilation": workload.dilation,
        "multiplier": workload.multiplier,
        **{name: getattr(workload, name) for name in SHARED},
    }
    return Column.model_construct(signals=workload, **fields)


class ByColumn(Template[Conv1dWorkload]):
    """``template``, of depthwise convolution, for signals with their channels last and a kernel for
    each channel. Its rows are samples."""

    template: ClassVar[Template[Any]]

    def image(self, workload: Conv1dWorkload) -> Column:
        return column(workload)

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
    """The same of a template of gradients, for kernels that depthwise convolution has, too."""

    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return has_image(workload) and super().applies(workload, limits)


def has_image(workload: Conv1dWorkload) -> bool:
    """Whether kernel and stride are within depthwise convolution's limits."""
    known = workload.N <= MAX_KERNEL and workload.stride <= MAX_STRIDE
    return known and workload.span - 1 <= MAX_REACH
