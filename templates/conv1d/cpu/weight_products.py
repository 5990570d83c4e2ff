"""CpuWeightProducts: the search space of the weight's gradient of dense channels, on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.conv1d.cpu import products
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template


class CpuWeightProducts(Template[Conv1dWorkload]):
    """The weight's gradient as a product: filters by channels and taps, summed over the outputs of
    all signals. The knobs are those of ``products.py``."""

    name = "weight_products"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is the weight's gradient of dense channels, on a CPU."""
        of_weight = workload.direction == "backward_weight" and workload.is_dense
        return super().applies(workload, limits) and of_weight

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        products.add_knobs(space, *lines(workload))
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {"template": self.name, **products.default_knobs(*lines(workload), limits)}

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        depths = workload.B * workload.length
        return products.features(config, *lines(workload), 1, depths, limits)


def lines(workload: Conv1dWorkload) -> tuple[int, int]:
    """Return the lines and columns: filters, and channels times taps, with a last column for the
    bias if there is one."""
    return workload.out_channels, workload.C * workload.N + workload.bias
