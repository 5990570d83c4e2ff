"""Search space of the tiled form on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

WHOLE_ROW = 4096
STRIP = 1024
MAX_STAGED_BYTES = 2**24
MAX_SUMS = 16  # the most vectors of sums in registers


class CpuTiled(Template[DepthwiseConv2dWorkload]):
    """A task stages its padded rows of one plane, or a strip of them if rows are long.

    The task has ``tiles_per_task`` tiles, one below the other. A tile is ``rows`` by ``vectors``
    vector registers of ``lanes`` outputs, and each tap is broadcast to them.
    """

    name = "tiled"
    kind = "cpu"
    version = 2
    arithmetic = DIRECT

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height, width = workload.out_height, workload.out_width
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", [4, 8, 16])
        space.knob("vectors", [1, 2, 3, 4])
        space.knob("rows", [1, 2, 3, 4, 6, 8])
        space.knob("tiles_per_task", [1, 2, 4, 7, 14, 32, 128])
        space.knob("unroll", ["none", "columns", "rows"])
        space.knob("threading", ["serial", "parallel"])
        space.constraint(
            "a tile has no more vectors than a row needs",
            lambda c: c["vectors"] == 1 or c["lanes"] * (c["vectors"] - 1) < width,
        )
        space.constraint(
            "a tile has no more rows than a plane", lambda c: c["rows"] == 1 or c["rows"] <= height
        )
        space.constraint(
            "a task has fewer than twice a plane's rows, or one tile",
            lambda c: c["tiles_per_task"] == 1 or c["rows"] * c["tiles_per_task"] < 2 * height,
        )
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums", lambda c: c["rows"] * c["vectors"] <= MAX_SUMS
        )
        space.constraint(
            "at most 1024 vector multiply-adds unrolled",
            lambda c: c["rows"] * c["vectors"] * _unrolled_taps(workload, c) <= 1024,
        )
        space.constraint(
            f"a task stages at most {MAX_STAGED_BYTES} bytes, or is as small as it can be",
            lambda c: (
                _staged_bytes(workload, c) <= MAX_STAGED_BYTES
                or (c["rows"], c["vectors"], c["tiles_per_task"]) == (1, 1, 1)
            ),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "lanes": max(4, min(16, limits.vector_bytes // 4)),
            "vectors": 1,
            "rows": 1,
            "tiles_per_task": 1,
            "unroll": "none",
            "threading": "serial",
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        columns = config["lanes"] * config["vectors"]
        task_rows, task_columns = _task(workload, config)
        planes = workload.B * workload.out_channels
        down = ceil_div(workload.out_height, task_rows)
        across = ceil_div(workload.out_width, task_columns)
        tasks = planes * down * across
        staged = _staged_bytes(workload, config)
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": task_rows * task_columns * workload.taps,
            "registers": config["rows"] * columns * 4 / limits.vector_bytes,
            "unrolled": config["rows"] * config["vectors"] * _unrolled_taps(workload, config),
            "tile_bytes": staged,
            "staged_bytes": staged * tasks,
            "padded_share": down
            * task_rows
            * across
            * task_columns
            / (workload.out_height * workload.out_width),
        }


def strip_columns(width: int, config: Config) -> int:
    """Return the output columns of a task, in whole patches.

    They are all columns of a row, or about STRIP columns of a long row.
    """
    patch: int = config["lanes"] * config["vectors"]
    whole = ceil_div(width, patch) * patch
    return whole if whole <= WHOLE_ROW else STRIP // patch * patch


def _task(workload: DepthwiseConv2dWorkload, config: Config) -> tuple[int, int]:
    """Return the output rows and columns of a task."""
    return config["rows"] * config["tiles_per_task"], strip_columns(workload.out_width, config)


def _staged_bytes(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    height, width = (
        (outputs - 1) * workload.stride + taps.span
        for outputs, taps in zip(_task(workload, config), workload.used_taps, strict=True)
    )
    return 4 * height * width


def _unrolled_taps(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    height, width = workload.used_kernel
    return {"none": 1, "columns": width, "rows": height * width}[config["unroll"]]
