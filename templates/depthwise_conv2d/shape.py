"""The numbers of a workload, under their names in CUDA sources."""

from __future__ import annotations

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import epilogue


def shape(workload: DepthwiseConv2dWorkload) -> dict[str, object]:
    """Return the workload's extents, steps and taps, and its epilogue."""
    return {**epilogue(workload), **extents(workload)}


def extents(workload: DepthwiseConv2dWorkload) -> dict[str, object]:
    """Return the extents, the steps, the order of the taps, and the used taps."""
    height, width = workload.kernel
    down, across = workload.used_taps
    return {
        "B": workload.B,
        "C": workload.C,
        "H": workload.H,
        "W": workload.W,
        "HO": workload.out_height,
        "WO": workload.out_width,
        "STRIDE": workload.stride,
        "DILATION": workload.dilation,
        "KERNEL": height * width,
        "KW": width,
        "FLIP": workload.is_flipped,
        "TAPS_H": down.count,
        "TAPS_W": across.count,
        "FIRST": down.first * width + across.first,
        "TOP": down.before,
        "LEFT": across.before,
    }
