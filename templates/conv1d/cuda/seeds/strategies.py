"""CudaStrategies: the search space of the tiling strategies of seed 002, a lecture, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

STRATEGIES = ("halo_global", "halo_shared", "idle_threads", "several_outputs")


class CudaStrategies(Template[Conv1dWorkload]):
    """Strategies of a lecture on tiled convolution, which differ in the threads that load the halo.

    - ``halo_global``: the tile is in shared memory, and its halo is read from global memory
    - ``halo_shared``: both are in shared memory, and some threads load more than once
    - ``idle_threads``: there is a thread for each input of tile and halo, and the threads of the
      halo compute nothing
    - ``several_outputs``: as ``halo_shared``, with ``outputs_per_thread`` outputs a thread
    """

    name = "strategies"
    kind = "cuda"
    version = 1
    arithmetic = DIRECT
    by_default = False

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is plain, as in the lecture, and not bfloat16, on CUDA."""
        return limits.kind == "cuda" and workload.is_plain and workload.dtype != "bfloat16"

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("strategy", list(STRATEGIES))
        space.knob("threads", [32, 64, 128, 256, 512, 1024])
        space.knob("outputs_per_thread", [2, 4, 8], when={"strategy": "several_outputs"})
        space.knob(
            "taps_per_chunk",
            chunk_lengths(workload.N, (1,)),
            when={"strategy": [name for name in STRATEGIES if name != "idle_threads"]},
        )
        space.constraint(
            f"at most {limits.threads_per_block} threads a block",
            lambda c: c["threads"] <= limits.threads_per_block,
            reads=("threads",),
        )
        space.constraint(
            f"at most {limits.shared_memory_per_block} bytes of shared memory",
            lambda c: _shared_bytes(workload, c) <= limits.shared_memory_per_block,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "strategy": "halo_shared",
            "threads": 256,
            "taps_per_chunk": chunk_lengths(workload.N, (1,))[0],
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, each = config["threads"], outputs_per_thread(config)
        tile, chunk = outputs_per_block(workload, config), taps_per_pass(workload, config)
        blocks, passes = ceil_div(workload.length, tile), ceil_div(workload.N, chunk)
        resident = max(1, 2048 // threads)
        from_global = config["strategy"] == "halo_global"
        return {
            **occupancy(blocks, threads, resident, limits),
            "shared_bytes": _shared_bytes(workload, config),
            "registers": 2 * each + 24,
            "passes": passes,
            "halo_from_global": float(from_global),
            "work_per_thread": each * workload.N,
            "loads_per_fma": (each + 1) / each,
            "idle_share": max(0.0, 1 - tile / threads),
            "padded_share": blocks * tile / workload.length,
            "staged_bytes": 4 * blocks * (tile if from_global else passes * (tile + chunk - 1)),
        }


def outputs_per_thread(config: Config) -> int:
    return int(config.get("outputs_per_thread", 1))


def outputs_per_block(workload: Conv1dWorkload, config: Config) -> int:
    threads = int(config["threads"])
    if config["strategy"] == "idle_threads":
        return threads - taps_per_pass(workload, config) + 1
    return threads * outputs_per_thread(config)


def taps_per_pass(workload: Conv1dWorkload, config: Config) -> int:
    """Return for how many taps a tile is loaded at once. With ``idle_threads``, the taps of a pass
    are so few that at least half of a block's threads compute."""
    if config["strategy"] == "idle_threads":
        return min(workload.N, int(config["threads"]) // 2 + 1)
    return int(config["taps_per_chunk"])


def _shared_bytes(workload: Conv1dWorkload, config: Config) -> int:
    if config["strategy"] == "halo_global":
        return int(4 * config["threads"])
    return 4 * (outputs_per_block(workload, config) + taps_per_pass(workload, config) - 1)
