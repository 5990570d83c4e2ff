"""CpuGated: the search space of convolutions with gates, channels last, on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_SUMS = 32
MAX_UNROLLED = 256
MAX_CHUNK = 512
"""Most products that are added up in one float32 sum. More products need several such sums."""


class CpuGated(Template[Conv1dWorkload]):
    """Direct sum of a signal with gates, channels last, with vectors of neighbouring channels.

    A task computes ``rows_per_task`` rows of outputs. It sums ``rows`` of them by ``vectors``
    vectors of ``lanes`` channels at a time, in registers. ``inner`` says whether the inner loop is
    over channels or rows, ``unroll`` whether the taps are unrolled. A sample is multiplied by its
    gate each time that it meets a tap, and a sum by its gate before the only store.
    """

    name = "gated"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT
    takes_gates = True

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", [lanes for lanes in (1, 2, 4, 8, 16) if lanes <= workload.C])
        space.knob("vectors", [1, 2, 4])
        space.knob("rows", [rows for rows in (1, 2, 3, 4, 6, 8) if rows <= workload.M])
        space.knob("rows_per_task", [1, 4, 16, 64, 256, 1024])
        space.knob("inner", ["channels", "rows"])
        space.knob("unroll", ["none", "taps"])
        space.knob("threading", ["serial", PARALLEL])
        space.constraint(
            "several vectors have no more channels than the workload",
            lambda c: c["vectors"] == 1 or c["lanes"] * c["vectors"] <= workload.C,
        )
        space.constraint(
            "a task has at least as many rows as are summed together",
            lambda c: c["rows"] <= c["rows_per_task"],
        )
        space.constraint(
            "a task has fewer than twice the rows of a signal, or one row",
            lambda c: c["rows_per_task"] == 1 or c["rows_per_task"] < 2 * workload.M,
        )
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums", lambda c: c["rows"] * c["vectors"] <= MAX_SUMS
        )
        space.constraint(
            f"at most {MAX_UNROLLED} vector multiply-adds unrolled",
            lambda c: (
                c["unroll"] == "none"
                or c["rows"] * c["vectors"] * min(workload.N, MAX_CHUNK) <= MAX_UNROLLED
            ),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        lanes = max(4, min(16, limits.vector_bytes // 4))
        return {
            "template": self.name,
            "lanes": min(lanes, 1 << (workload.C.bit_length() - 1)),
            "vectors": 1,
            "rows": 1,
            "rows_per_task": 1,
            "inner": "channels",
            "unroll": "none",
            "threading": "serial",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        channels, rows = config["lanes"] * config["vectors"], config["rows"]
        deep = ceil_div(workload.C, channels) * channels
        return {
            **occupancy_by_tasks(tasks(workload, config), config, limits),
            "work_per_task": config["rows_per_task"] * deep * workload.N,
            "registers": rows * channels * 4 / limits.vector_bytes,
            "unrolled": rows
            * config["vectors"]
            * (min(workload.N, MAX_CHUNK) if config["unroll"] == "taps" else 1),
            "tile_bytes": 12 * (rows + workload.span - 1) * channels,
            "padded_share": deep / workload.C,
        }


def tasks(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of tasks: bands of rows of all signals."""
    return workload.B * ceil_div(workload.M, config["rows_per_task"])
