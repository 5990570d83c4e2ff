"""CudaInputProducts: the search space of the input's gradient of dense channels, on CUDA."""

from __future__ import annotations

from templates.arithmetic import PRODUCTS
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients import products
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template


class CudaInputProducts(Template[Conv1dWorkload]):
    """The input's gradient as a product: samples by channels, summed over filters and the taps that
    meet a sample.

    A block has ``rows`` samples by ``columns`` channels. Its samples have the same remainder modulo
    the stride, their phase, so that they meet the same taps. The other knobs are those of
    ``products.py``.
    """

    name = "input_products"
    kind = "cuda"
    version = 1
    arithmetic = PRODUCTS
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is the input's gradient of dense channels, on CUDA."""
        of_input = workload.direction == "backward_input" and workload.is_dense
        return super().applies(workload, limits) and of_input

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        products.add_knobs(space, workload, limits, lines(workload))
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {"template": self.name, **products.default_knobs(workload, limits, lines(workload))}

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        tiles = products.tiles(lines(workload), config)
        summed = phases(workload) * tiles * config["rows"] * config["columns"]
        return {
            **products.features(config, blocks(workload, config), workload.taps, limits),
            "filled": workload.B * workload.M * workload.C / summed,
        }


def lines(workload: Conv1dWorkload) -> tuple[int, int]:
    """Return the rows and columns of the product: samples of one phase in all signals, and
    channels."""
    return workload.B * ceil_div(workload.M, workload.stride), workload.C


def phases(workload: Conv1dWorkload) -> int:
    """Return how many remainders modulo the stride the samples have."""
    return min(workload.stride, workload.M)


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return phases(workload) * products.tiles(lines(workload), config)
