"""The space of the tiled form on a CPU."""

from __future__ import annotations

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits
from templates.space import ConfigSpace
from templates.template import Config, Template


class CpuTiled(Template[DepthwiseConv2dWorkload]):
    """A task stages its padded rows of one plane; ``rows`` by ``vectors`` vector registers of
    ``lanes`` outputs are summed at a time, each tap broadcast."""

    operator = "depthwise_conv2d"
    name = "tiled"
    kind = "cpu"
    version = 1

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height, width, K = workload.out_height, workload.out_width, workload.K
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", [4, 8, 16])
        space.knob("vectors", [1, 2, 3, 4])
        space.knob("rows", [1, 2, 3, 4, 6, 8])
        space.knob("tiles_per_task", [1, 2, 4, 7, 14, 32, 128])
        space.knob("unroll", ["none", "columns", "rows"])
        space.knob("threading", ["serial", "parallel"])
        space.constraint(
            "a patch is no wider than the padded row needs",
            lambda c: c["vectors"] == 1 or c["lanes"] * (c["vectors"] - 1) < width,
        )
        space.constraint(
            "a patch is no higher than the plane", lambda c: c["rows"] == 1 or c["rows"] <= height
        )
        space.constraint(
            "a task is no higher than the plane needs",
            lambda c: c["tiles_per_task"] == 1 or c["rows"] * c["tiles_per_task"] < 2 * height,
        )
        space.constraint(
            "at most 64 vector registers of sums", lambda c: c["rows"] * c["vectors"] <= 16
        )
        space.constraint(
            "at most 1024 vector multiply-adds unrolled",
            lambda c: c["rows"] * c["vectors"] * _unrolled_taps(c["unroll"], K) <= 1024,
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
    ) -> dict[str, float]:
        columns = config["lanes"] * config["vectors"]
        task_rows = config["rows"] * config["tiles_per_task"]
        padded_rows = -(-workload.out_height // task_rows) * task_rows
        padded_columns = -(-workload.out_width // columns) * columns
        tasks = workload.B * workload.C * padded_rows // task_rows
        used = min(tasks, limits.units) if config["threading"] == "parallel" else 1
        staged = ((task_rows - 1) * workload.stride + workload.K) * (
            (padded_columns - 1) * workload.stride + workload.K
        )
        return {
            "tasks": tasks,
            "threads": used,
            "waves": -(-tasks // used),
            "work_per_task": task_rows * padded_columns * workload.taps,
            "registers": config["rows"] * columns * 4 / limits.vector_bytes,
            "unrolled": config["rows"]
            * config["vectors"]
            * _unrolled_taps(config["unroll"], workload.K),
            "tile_bytes": 4 * staged,
            "staged_bytes": 4 * staged * tasks,
            "padded_share": padded_rows
            * padded_columns
            / (workload.out_height * workload.out_width),
            "bytes": workload.bytes,
            "flops": workload.flops,
        }


def _unrolled_taps(unroll: str, K: int) -> int:
    return {"none": 1, "columns": K, "rows": K * K}[unroll]
