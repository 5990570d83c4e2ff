"""CpuInputProducts: the search space of the input's gradient of dense channels, on a CPU."""

from __future__ import annotations

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.products import CpuProducts
from templates.conv1d.workload import Conv1dWorkload


class CpuInputProducts(CpuProducts):
    """The input's gradient as a product: channels by samples, summed over filters and the taps that
    meet a sample.

    All samples of a sheet have the same remainder modulo the stride (their phase), so they meet the
    same taps. The knobs are those of ``CpuProducts``.
    """

    name = "input_products"
    version = 1
    direction = "backward_input"

    @staticmethod
    def extents(workload: Conv1dWorkload) -> tuple[int, int]:
        """Return the numbers of lines (channels) and columns (samples of one phase in all
        signals)."""
        return workload.C, workload.B * ceil_div(workload.M, workload.stride)

    @staticmethod
    def depths(workload: Conv1dWorkload) -> int:
        return workload.taps

    @staticmethod
    def sheets(workload: Conv1dWorkload) -> int:
        """Return the number of different remainders of the samples modulo the stride."""
        return min(workload.stride, workload.M)
