"""CpuWeightProducts: the search space of the weight's gradient of dense channels, on a CPU."""

from __future__ import annotations

from templates.conv1d.cpu.products import CpuProducts
from templates.conv1d.workload import Conv1dWorkload


class CpuWeightProducts(CpuProducts):
    """The weight's gradient as a product: filters by channels and taps, summed over the outputs of
    all signals. The knobs are those of ``CpuProducts``."""

    name = "weight_products"
    version = 1
    direction = "backward_weight"

    @staticmethod
    def extents(workload: Conv1dWorkload) -> tuple[int, int]:
        """Return the numbers of lines (filters) and columns (channels times taps, and one more for
        a bias)."""
        return workload.out_channels, workload.C * workload.N + workload.bias

    @staticmethod
    def depths(workload: Conv1dWorkload) -> int:
        return workload.B * workload.length
