"""Search space of the channels-last form on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_SUMS = 32
MAX_UNROLLED = 512


class CpuChannels(Template[DepthwiseConv2dWorkload]):
    """A form for channels last, with vectors of neighbouring channels.

    A task computes ``rows_per_task`` rows of outputs. It sums ``columns`` outputs by ``vectors``
    vectors of ``lanes`` channels at a time, in registers. ``inner`` says whether the inner loop is
    over channels or columns, ``unroll`` whether a row of taps is unrolled.

    The input is read in place: only outputs near the border check whether a tap is on padding. The
    weights are first put in the order of use.
    """

    name = "channels"
    kind = "cpu"
    version = 3
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept workloads in layout NHWC without a multiplier, on a CPU."""
        return (
            super().applies(workload, limits)
            and workload.layout == "NHWC"
            and workload.multiplier == 1
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        _, width = workload.used_kernel
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", [lanes for lanes in (1, 2, 4, 8, 16) if lanes <= workload.C])
        space.knob("vectors", [1, 2, 4])
        space.knob("columns", [1, 2, 3, 4, 6, 7, 8, 14])
        space.knob("rows_per_task", [1, 2, 4, 7, 14, 28, 56])
        space.knob("inner", ["channels", "columns"])
        space.knob("unroll", ["none", "columns"])
        space.knob("threading", ["serial", PARALLEL])
        space.constraint(
            "several vectors have no more channels than the workload",
            lambda c: c["vectors"] == 1 or c["lanes"] * c["vectors"] <= workload.C,
        )
        space.constraint(
            "no more columns than a row of outputs has",
            lambda c: c["columns"] == 1 or c["columns"] <= workload.out_width,
        )
        space.constraint(
            "a task has fewer than twice a plane's rows, or one row",
            lambda c: c["rows_per_task"] == 1 or c["rows_per_task"] < 2 * workload.out_height,
        )
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums",
            lambda c: c["columns"] * c["vectors"] <= MAX_SUMS,
        )
        space.constraint(
            f"at most {MAX_UNROLLED} vector multiply-adds unrolled",
            lambda c: c["unroll"] == "none" or c["columns"] * c["vectors"] * width <= MAX_UNROLLED,
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        lanes = max(4, min(16, limits.vector_bytes // 4))
        return {
            "template": self.name,
            "lanes": min(lanes, 1 << (workload.C.bit_length() - 1)),
            "vectors": 1,
            "columns": 1,
            "rows_per_task": 1,
            "inner": "channels",
            "unroll": "none",
            "threading": "serial",
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        channels, columns = config["lanes"] * config["vectors"], config["columns"]
        rows = config["rows_per_task"]
        tasks = workload.B * ceil_div(workload.out_height, rows)
        across = ceil_div(workload.out_width, columns) * columns
        deep = ceil_div(workload.C, channels) * channels
        _, width = workload.used_taps
        segment = (columns - 1) * workload.stride + width.span
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": rows * across * deep * workload.taps,
            "registers": columns * channels * 4 / limits.vector_bytes,
            "unrolled": columns
            * config["vectors"]
            * (width.count if config["unroll"] == "columns" else 1),
            "loads_per_fma": min(1.0, segment / (columns * width.count))
            if config["unroll"] == "columns"
            else 1.0,
            "tile_bytes": 4 * segment * channels,
            "padded_share": across * deep / (workload.out_width * workload.C),
        }
