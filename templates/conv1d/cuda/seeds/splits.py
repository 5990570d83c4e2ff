"""CudaSplits: the search space that seed 000 lets AutoTVM search, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.seeds.blocks import taps_per_chunk
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy
from templates.kernels.shared_memory import shared_bytes
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

STEPS = (1, 2, 4, 8, 16)


class CudaSplits(Template[Conv1dWorkload]):
    """The choices that seed 000 leaves to AutoTVM, as far as the document says.

    Each thread has one output. A block has ``threads_y`` by ``threads_x`` threads. The taps are
    split in steps of ``taps_per_step``, which are unrolled or not. Weights and input are read
    through shared memory or directly from global memory. The length of the seed's output,
    16415 = 5·7²·67, has no useful split, so here it is padded to whole blocks.
    """

    name = "splits"
    kind = "cuda"
    version = 3
    arithmetic = DIRECT
    by_default = False

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return super().applies(workload, limits) and workload.is_basic

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("threads_y", [1, 2, 4, 8, 16, 32])
        space.knob("threads_x", [4, 8, 16, 32, 64, 128, 256])
        space.knob("taps_per_step", [step for step in STEPS if step < 2 * workload.N])
        space.knob("weights", ["shared", "global"])
        space.knob("input", ["shared", "global"])
        space.knob("unroll", [False, True])
        space.constraint(
            f"at most {limits.threads_per_block} threads a block",
            lambda c: _threads(c) <= limits.threads_per_block,
            reads=("threads_y", "threads_x"),
        )
        space.constraint(
            f"at most {limits.shared_memory_per_block} bytes of shared memory",
            lambda c: _shared_bytes(workload, c) <= limits.shared_memory_per_block,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "threads_y": 8,
            "threads_x": 4,
            "taps_per_step": max(step for step in STEPS[:4] if step < 2 * workload.N),
            "weights": "shared",
            "input": "global",
            "unroll": True,
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, step = _threads(config), config["taps_per_step"]
        blocks = ceil_div(workload.length, threads)
        resident = max(1, min(2048 // threads, 32))
        through = {name: float(config[name] == "shared") for name in ("weights", "input")}
        return {
            **occupancy(blocks, threads, resident, limits),
            "row_of_threads": config["threads_x"],
            "shared_bytes": _shared_bytes(workload, config),
            "registers": 32 + step,
            "weights_shared": through["weights"],
            "input_shared": through["input"],
            "unrolled": step if config["unroll"] else 1,
            "barriers": 2 * through["weights"] * ceil_div(workload.N, step),
            "work_per_thread": workload.N,
        }


def _threads(config: Config) -> int:
    return int(config["threads_y"] * config["threads_x"])


def _shared_bytes(workload: Conv1dWorkload, config: Config) -> int:
    floats = []
    if config["input"] == "shared":
        floats.append(_threads(config) + taps_per_chunk(workload, config) - 1)
    if config["weights"] == "shared":
        floats.append(config["taps_per_step"])
    return shared_bytes(*floats)
