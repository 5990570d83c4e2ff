"""Templates of depthwise convolution, applied to signals that are images of one column or row."""

from __future__ import annotations

from templates.adapted import Adapted
from templates.conv1d.as_image import SignalsAsImage, as_column_image, as_row_image, has_image
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.cpu import channels as cpu_channels
from templates.depthwise_conv2d.cpu import input_pieces, weight_pieces
from templates.depthwise_conv2d.cuda import channels as cuda_channels
from templates.depthwise_conv2d.cuda.gradients import input_channels, weight_channels
from templates.limits import DeviceLimits


class ByColumn(Adapted[Conv1dWorkload]):
    """A template that is applied to images of one column, with a sample in each row.

    It serves layout NWC if channels are not dense.
    """

    def form(self, workload: Conv1dWorkload) -> SignalsAsImage:
        return as_column_image(workload)

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        fits = workload.layout == "NWC" and not workload.is_dense
        return fits and self.template.applies(self.form(workload), limits)


class GradientByColumn(ByColumn):
    """A gradient's template that is applied to images of one column. Kernel and stride must be
    within the limits of depthwise convolution."""

    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return has_image(workload) and super().applies(workload, limits)


class GradientByRow(Adapted[Conv1dWorkload]):
    """A gradient's template that is applied to images of one row, with a sample in each column.

    It serves both layouts if channels are not dense.
    """

    computes_gradients = True

    def form(self, workload: Conv1dWorkload) -> SignalsAsImage:
        return as_row_image(workload)

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        fits = not workload.is_forward and not workload.is_dense
        return fits and self.template.applies(self.form(workload), limits)


class CpuChannels(ByColumn):
    def __init__(self) -> None:
        super().__init__(cpu_channels.CpuChannels())


class CpuInputPieces(GradientByRow):
    def __init__(self) -> None:
        super().__init__(input_pieces.CpuInputPieces())


class CpuWeightPieces(GradientByRow):
    def __init__(self) -> None:
        super().__init__(weight_pieces.CpuWeightPieces())


class CudaChannels(ByColumn):
    def __init__(self) -> None:
        super().__init__(cuda_channels.CudaChannels())


class CudaInputChannels(GradientByColumn):
    def __init__(self) -> None:
        super().__init__(input_channels.CudaInputChannels())


class CudaWeightChannels(GradientByColumn):
    def __init__(self) -> None:
        super().__init__(weight_channels.CudaWeightChannels())
