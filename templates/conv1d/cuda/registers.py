"""CudaRegisters: the search space of direct sums of short rows without shared memory on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.launches.next_launch import begins_next, next_launches
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 512
MAX_REGISTERS = 200
FEW_BLOCKS = 6  # of a unit. With at most so many, letting the next launch begin usually pays


class CudaRegisters(Template[Conv1dWorkload]):
    """Direct sum that reads straight from global memory to registers.

    It is for short kernels and short signals, which spend most of their time on one wait for memory
    (``schedules/registers.cu``). ``shares`` lanes compute the same ``outputs_per_thread``
    neighbouring outputs: each sums over one part of the taps, and they add up their sums by
    shuffles. ``next_launch`` says whether the next launch may begin ``early``, once a block has
    asked for its weights, or ``late``, when all blocks have ended.
    """

    name = "registers"
    kind = "cuda"
    version = 6
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload ``is_rows`` and has at most 512 taps, on CUDA: a lane has all
        its taps in registers."""
        return limits.kind == "cuda" and workload.N <= MAX_TAPS and workload.is_rows

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("outputs_per_thread", [1, 2, 4, 8])
        space.knob("shares", [1, 2, 4, 8, 16, 32])
        space.knob("threads", [32, 64, 128, 256, 512])
        space.knob("next_launch", next_launches(limits))
        space.constraint(
            "every lane has a tap, or each output has one lane",
            lambda c: (c["shares"] - 1) * _taps(workload, c) < workload.N or c["shares"] == 1,
        )
        space.constraint(
            f"about {MAX_REGISTERS} registers a thread at most",
            lambda c: _registers(workload, c) <= MAX_REGISTERS,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        config = {"template": self.name, "outputs_per_thread": 1, "shares": 1, "threads": 128}
        for shares in (2, 4, 8, 16, 32):
            if _registers(workload, config) > MAX_REGISTERS:
                config = {**config, "shares": shares}
        few = _blocks(workload, config) <= FEW_BLOCKS * limits.units
        return config | {"next_launch": next_launches(limits)[0] if few else "late"}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        outputs, threads, shares = (
            config[name] for name in ("outputs_per_thread", "threads", "shares")
        )
        taps, registers = _taps(workload, config), _registers(workload, config)
        resident = resident_blocks(threads, registers, limits)
        vector = min(outputs, 4)
        return {
            **occupancy(_blocks(workload, config), threads, resident, limits),
            "shared_bytes": 4,
            "registers": registers,
            "loads_per_thread": ceil_div(outputs + 2 * taps, vector),
            "work_per_thread": outputs * taps,
            "shares": shares,
            "next_begins_early": begins_next(config),
            "padded_share": shares * taps / workload.N,
        }


def _blocks(workload: Conv1dWorkload, config: Config) -> int:
    outputs = config["threads"] // config["shares"] * config["outputs_per_thread"]
    return int(workload.rows * ceil_div(workload.length, outputs))


def _taps(workload: Conv1dWorkload, config: Config) -> int:
    """Return the taps of a lane, rounded up to whole vectors."""
    vector = min(config["outputs_per_thread"], 4)
    return ceil_div(workload.N, config["shares"] * vector) * int(vector)


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: the window of the input, the taps, sums and
    addresses."""
    return int(2 * _taps(workload, config) + 3 * config["outputs_per_thread"] + 24)
