"""CpuDirect: the search space of the direct sum of one signal on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TASKS = 2**16
MULTIPLES = (1, 8)


class CpuDirect(Template[Conv1dWorkload]):
    """Direct sum of one signal: each tap is broadcast and multiplied into a tile of registers.

    A tile is ``vectors`` vector registers of ``lanes`` outputs. A task computes ``tiles_per_task``
    tiles.
    """

    name = "direct"
    kind = "cpu"
    version = 3
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return super().applies(workload, limits) and workload.is_basic

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", [4, 8, 16])
        space.knob("vectors", [1, 2, 4, 6, 8, 12, 16])
        space.knob("tiles_per_task", [1, 4, 16, 64, 256, 1024])
        space.knob("taps_unrolled", [1, 2, 4, 8])
        space.knob("taps_per_chunk", chunk_lengths(workload.N, MULTIPLES))
        space.knob("threading", ["serial", "parallel"])
        space.constraint(
            "taps_unrolled divides taps_per_chunk",
            lambda c: c["taps_per_chunk"] % c["taps_unrolled"] == 0,
        )
        space.constraint(
            "at most 64 vectors unrolled a step", lambda c: c["vectors"] * c["taps_unrolled"] <= 64
        )
        length = workload.length
        space.constraint(
            "a task holds no more than twice the output, or is one tile",
            lambda c: _task(c) <= 2 * length or c["tiles_per_task"] == 1,
        )
        space.constraint(f"at most {MAX_TASKS} tasks", lambda c: length <= MAX_TASKS * _task(c))
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        config = {
            "template": self.name,
            "lanes": max(4, min(16, limits.vector_bytes // 4)),
            "vectors": 4,
            "tiles_per_task": 1,
            "taps_unrolled": 1,
            "taps_per_chunk": chunk_lengths(workload.N, MULTIPLES)[0],
            "threading": "serial",
        }
        for tiles in (4, 16, 64, 256, 1024):
            if _task({**config, "tiles_per_task": tiles}) <= workload.length:
                config["tiles_per_task"] = tiles
        return config

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        task = _task(config)
        tasks = ceil_div(workload.length, task)
        chunks = ceil_div(workload.N, config["taps_per_chunk"])
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": task * workload.N,
            "accumulator_bytes": 4 * config["lanes"] * config["vectors"],
            "registers": config["lanes"] * config["vectors"] * 4 / limits.vector_bytes,
            "tile_bytes": 4 * (task + config["taps_per_chunk"] * chunks),
            "padded_share": tasks
            * task
            * chunks
            * config["taps_per_chunk"]
            / (workload.length * workload.N),
        }


def _task(config: Config) -> int:
    """Return the number of outputs of one task."""
    outputs: int = config["lanes"] * config["vectors"] * config["tiles_per_task"]
    return outputs
