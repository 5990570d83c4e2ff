"""The values of a workload that are substituted for ``@NAME@`` in CUDA sources."""

from __future__ import annotations

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import epilogue


def shape(workload: Conv1dWorkload) -> dict[str, object]:
    """Return :func:`extents` with the layout, the channels per output and the epilogue."""
    return {
        **epilogue(workload),
        "CHANNELS_LAST": workload.layout == "NWC",
        **extents(workload),
        "SUMMED": workload.summed,
        "SEVERAL": workload.multiplier,
    }


def extents(workload: Conv1dWorkload) -> dict[str, object]:
    """Return the extents in elements, stride, dilation, padding, and whether taps are flipped."""
    return {
        "FLIP": workload.kind == "convolve",
        "B": workload.B,
        "C": workload.C,
        "M": workload.M,
        "F": workload.out_channels,
        "L": workload.length,
        "N": workload.N,
        "STRIDE": workload.stride,
        "DILATION": workload.dilation,
        "LEFT": workload.left,
    }
