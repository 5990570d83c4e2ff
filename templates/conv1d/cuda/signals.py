"""CudaSignals: the search space of direct sums of several signals or channels on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_SUMS = 32
OTHER_REGISTERS = 24  # registers for addresses and so on


class CudaSignals(Template[Conv1dWorkload]):
    """Direct sum for every forward workload that is not ``is_basic``.

    A thread sums ``outputs`` outputs of each of ``filters`` output channels that read the same
    input. It reads samples and weights from global memory, for ``taps_unrolled`` taps at a time.
    Neighbouring threads have neighbouring outputs, or neighbouring channels if channels are last.
    """

    name = "signals"
    kind = "cuda"
    version = 4
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return super().applies(workload, limits) and not workload.is_basic

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("threads", [t for t in (64, 128, 256, 512) if t <= limits.threads_per_block])
        space.knob("outputs", [r for r in (1, 2, 4, 8, 16) if r == 1 or r <= workload.length])
        space.knob("filters", [f for f in (1, 2, 4, 8, 16) if f <= workload.multiplier])
        space.knob("taps_unrolled", [t for t in (1, 2, 4, 8) if t < 2 * workload.N])
        space.constraint(
            f"at most {MAX_SUMS} sums a thread", lambda c: c["outputs"] * c["filters"] <= MAX_SUMS
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "threads": 128,
            "outputs": 1,
            "filters": 4 if workload.multiplier >= 4 else 1,
            "taps_unrolled": 1,
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, outputs, filters = config["threads"], config["outputs"], config["filters"]
        sums = outputs * filters
        registers = 2 * sums + (outputs + filters) * config["taps_unrolled"] + OTHER_REGISTERS
        resident = resident_blocks(threads, registers, limits)
        return {
            **occupancy(blocks(workload, config), threads, resident, limits),
            "shared_bytes": 0,
            "registers": registers,
            "work_per_thread": sums * workload.taps,
            "loads_per_fma": (outputs + filters) / sums,
            "unrolled": sums * config["taps_unrolled"],
            "padded_share": ceil_div(workload.length, outputs)
            * outputs
            * ceil_div(workload.multiplier, filters)
            * filters
            / (workload.length * workload.multiplier),
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    inputs = workload.B * workload.C // workload.summed
    patches = ceil_div(workload.length, config["outputs"])
    threads = inputs * ceil_div(workload.multiplier, config["filters"]) * patches
    return ceil_div(threads, config["threads"])
