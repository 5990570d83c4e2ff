"""CpuInputProducts: the search space of the input's gradient of dense channels, on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.cpu import products
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template


class CpuInputProducts(Template[Conv1dWorkload]):
    """The input's gradient as a product: channels by samples, summed over filters and the taps that
    meet a sample.

    The samples of a task have the same remainder modulo the stride, their phase, so that they meet
    the same taps. The knobs are those of ``products.py``.
    """

    name = "input_products"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is the input's gradient of dense channels, on a CPU."""
        of_input = workload.direction == "backward_input" and workload.is_dense
        return super().applies(workload, limits) and of_input

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        products.add_knobs(space, *lines(workload))
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {"template": self.name, **products.default_knobs(*lines(workload), limits)}

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return products.features(config, *lines(workload), phases(workload), workload.taps, limits)


def lines(workload: Conv1dWorkload) -> tuple[int, int]:
    """Return the lines and columns: channels, and samples of one phase in all signals."""
    return workload.C, workload.B * ceil_div(workload.M, workload.stride)


def phases(workload: Conv1dWorkload) -> int:
    """Return how many remainders modulo the stride the samples have."""
    return min(workload.stride, workload.M)
