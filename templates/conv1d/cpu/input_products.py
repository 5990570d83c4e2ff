"""The space of the input's gradient of dense channels on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.cpu import products
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template


class CpuInputProducts(Template[Conv1dWorkload]):
    """Channels by samples, summed over filters and the taps that meet a sample, by the knobs of
    ``products.py``. Samples of a task leave the same remainder when divided by the stride."""

    name = "input_products"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """On a CPU, for the gradient of the input of dense channels."""
        of_input = workload.direction == "backward_input" and workload.is_dense
        return super().applies(workload, limits) and of_input

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        products.add_knobs(space, *lines(workload))
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {"template": self.name, **products.usual(*lines(workload), limits)}

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return products.features(config, *lines(workload), phases(workload), workload.taps, limits)


def lines(workload: Conv1dWorkload) -> tuple[int, int]:
    """Channels, and samples of a phase in all signals."""
    return workload.C, workload.B * ceil_div(workload.M, workload.stride)


def phases(workload: Conv1dWorkload) -> int:
    return min(workload.stride, workload.M)
