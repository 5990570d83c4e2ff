"""Search space of the weight's gradient, channels last, on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_SUMS = 16  # the most vectors of sums in registers
MAX_PLANE = 2**22  # the most floats of a padded plane


class CpuWeightChannels(Template[DepthwiseConv2dWorkload]):
    """A task has ``lanes`` neighbouring channels of the whole batch.

    It copies an image's plane of these channels, as float32 and with its padding. For each row of
    the gradient it sums ``tap_rows`` rows of up to ``tap_columns`` taps at a time in registers. The
    sums of a row are added to the image's, and the image's to the batch's.
    """

    name = "weight_channels"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of a weight in layout NHWC on a CPU, without a multiplier.

        A padded plane must have at most 2^22 elements.
        """
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_weight"
            and (workload.layout, workload.multiplier) == ("NHWC", 1)
            and plane_floats(workload, 1) <= MAX_PLANE
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        down, across = workload.used_kernel
        widths = {across} if across <= MAX_SUMS else {8}
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", _lanes(workload))
        space.knob("tap_rows", [n for n in (1, 2, 3, 4) if n <= down])
        space.knob("tap_columns", sorted(widths | {n for n in (1, 4) if n < across}))
        space.knob("threading", ["serial", PARALLEL])
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums",
            lambda c: c["tap_rows"] * c["tap_columns"] <= MAX_SUMS,
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        most = max(4, min(16, limits.vector_bytes // 4))
        return {
            "template": self.name,
            "lanes": max(lanes for lanes in _lanes(workload) if lanes <= most),
            "tap_rows": 1,
            "tap_columns": workload.used_kernel[1] if workload.used_kernel[1] <= MAX_SUMS else 8,
            "threading": "serial",
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        lanes = config["lanes"]
        tasks = ceil_div(workload.C, lanes)
        sums = config["tap_rows"] * config["tap_columns"]
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "registers": sums * lanes * 4 / limits.vector_bytes,
            "loads_per_fma": (sums + 1) / sums,
            "plane_bytes": 4 * plane_floats(workload, lanes),
            "padded_share": tasks * lanes / workload.C,
        }


def padded_plane(workload: DepthwiseConv2dWorkload) -> tuple[int, int]:
    """Return the rows and columns of a plane with the padding that the used taps reach."""
    down, across = workload.used_taps
    return (
        (workload.out_height - 1) * workload.stride + down.span,
        (workload.out_width - 1) * workload.stride + across.span,
    )


def plane_floats(workload: DepthwiseConv2dWorkload, lanes: int) -> int:
    """Return the floats of a padded plane of ``lanes`` channels."""
    rows, columns = padded_plane(workload)
    return rows * columns * lanes


def _lanes(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the values of ``lanes`` with which vectors are full and planes small enough."""
    return [
        lanes
        for lanes in (1, 2, 4, 8, 16, 32)
        if lanes <= workload.C and plane_floats(workload, lanes) <= MAX_PLANE
    ]
