"""Signals with their channels last as images of one column, which templates of depthwise
convolution know."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from templates.argument import Argument
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

SHARED = ("dtype", "max_error", "bias", "residual", "activation")


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


def column(workload: Conv1dWorkload) -> Column:
    """Of a workload with a kernel for each channel."""
    before, behind = workload.pads
    fields: dict[str, Any] = {
        "B": workload.B,
        "C": workload.C,
        "H": workload.M,
        "W": 1,
        "KH": workload.N,
        "KW": 1,
        "stride": workload.stride,
        "padding": (before, 0, behind, 0),
        "dilation": workload.dilation,
        "layout": "NHWC",
        **{name: getattr(workload, name) for name in SHARED},
    }
    return Column.model_construct(signals=workload, **fields)


class ByColumn(Template[Conv1dWorkload]):
    """``template``, of depthwise convolution, for signals with their channels last and a kernel for
    each channel. Its rows are samples."""

    operator = "conv1d"
    template: ClassVar[Template[Any]]

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        fits = workload.layout == "NWC" and not workload.is_dense and workload.multiplier == 1
        return fits and self.template.applies(column(workload), limits)

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        return self.template.space(column(workload), limits)

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return self.template.default(column(workload), limits)

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return self.template.features(column(workload), config, limits)

    def computation(self, workload: Conv1dWorkload, config: Config) -> Any:
        return self.template.computation(column(workload), config)

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        return self.template.schedule(column(workload), config)
