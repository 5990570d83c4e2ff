"""CudaInputProducts: the search space of the input's gradient of dense channels, on CUDA."""

from __future__ import annotations

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients import products
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.template import Config, Features


class CudaInputProducts(products.CudaProducts):
    """The input's gradient as a product: samples by channels, summed over filters and the taps that
    meet a sample.

    A block has ``rows`` samples by ``columns`` channels. Its samples have the same remainder modulo
    the stride (their phase), so they meet the same taps. The other knobs are those of
    ``CudaProducts``.
    """

    name = "input_products"
    version = 3
    direction = "backward_input"

    @staticmethod
    def extents(workload: Conv1dWorkload) -> tuple[int, int]:
        """Return the numbers of rows (samples of one phase in all signals) and columns
        (channels)."""
        return workload.B * ceil_div(workload.M, workload.stride), workload.C

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        tiles = products.tiles(self.extents(workload), config)
        summed = phases(workload) * tiles * config["rows"] * config["columns"]
        return {
            **products.features(config, blocks(workload, config), workload.taps, limits),
            "filled": workload.B * workload.M * workload.C / summed,
        }


def phases(workload: Conv1dWorkload) -> int:
    """Return the number of different remainders of the samples modulo the stride."""
    return min(workload.stride, workload.M)


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return phases(workload) * products.tiles(CudaInputProducts.extents(workload), config)
