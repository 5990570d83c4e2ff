"""CudaBank: the search space of tensor-core products for banks of filters with few taps."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.implicit_layout import (
    filter_blocks,
    filters,
    is_filled,
    positions,
    slack,
    threads,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import arithmetics
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 64  # a warp holds the samples of all taps
LEAST_FILTERS = 16  # the rows of one product
OTHER_REGISTERS = 48  # registers for runs of outputs before they are stored, addresses and so on


class CudaBank(Template[Conv1dWorkload]):
    """A bank of filters over one input channel, as a product on tensor cores.

    It is for at least 16 filters of at most 64 taps, in 16 bits, channels first. Its stores limit
    its speed (``schedules/bank.cu``). A warp holds the samples of ``position_tiles`` tiles of 8
    positions and goes through ``filter_tiles`` tiles of 16 filters. A lane stores ``neighbours``
    neighbouring outputs at once. Registers are limited so that ``resident`` blocks fit on a unit.
    """

    name = "bank"
    kind = "cuda"
    version = 3
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return (
            super().applies(workload, limits)
            and workload.dtype != "float32"
            and bool(arithmetics(workload, workload.N, limits))
            and workload.C == 1
            and workload.out_channels >= LEAST_FILTERS
            and workload.layout == "NCW"
            and workload.N <= MAX_TAPS
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        tiles = ceil_div(workload.out_channels, 16)
        space = ConfigSpace(self.name, self.version)
        space.knob("filter_warps", [1, 2, 4, 8])
        space.knob("filter_tiles", sorted({t for t in (1, 2, 4, 8, 16, 32) if t < tiles} | {tiles}))
        space.knob("position_warps", [1, 2, 4])
        space.knob("position_tiles", [4, 8, 12, 16])
        space.knob("neighbours", [2, 4, 8])
        space.knob("resident", [1, 2, 3, 4, 6])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "padding adds at most a quarter of the filters, or as few as possible",
            lambda c: is_filled(workload, c),
            ["filter_warps", "filter_tiles", "neighbours"],
        )
        space.constraint(
            "the positions fill more than half of a block, or it is the smallest",
            lambda c: (
                positions(c) < 2 * workload.length
                or (c["position_warps"], c["position_tiles"]) == (1, 4)
            ),
            ["position_warps", "position_tiles"],
        )
        space.constraint(
            "half of neighbours divides position_tiles",
            lambda c: c["position_tiles"] % (c["neighbours"] // 2) == 0,
            ["position_tiles", "neighbours"],
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: (
                _registers(workload, c)
                <= min(255, limits.registers_per_unit // (threads(c) * c["resident"]))
            ),
            ["position_tiles", "resident"],
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "filter_warps": 1,
            "filter_tiles": 1,
            "position_warps": 1,
            "position_tiles": 4,
            "neighbours": 2,
            "resident": 1,
            "stores": "cached",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        block, registers = threads(config), _registers(workload, config)
        count, steps = blocks(workload, config), ceil_div(workload.N, 16)
        return {
            **occupancy(count, block, resident_blocks(block, registers, limits), limits),
            "registers": registers,
            "fetched": config["position_tiles"] * steps / config["filter_tiles"],
            "products": config["position_tiles"] * steps * config["filter_tiles"],
            "stored_bytes": 2 * config["neighbours"],
            "row_bytes": 2 * positions(config),
            "padded_share": count
            * positions(config)
            * filters(config)
            / (workload.B * workload.length * workload.out_channels),
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    patches = ceil_div(workload.length + slack(workload, config), positions(config))
    return workload.B * patches * filter_blocks(workload, config)


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: samples and sums, the weights of two tiles, runs
    and addresses."""
    tiles, steps = config["position_tiles"], ceil_div(workload.N, 16)
    return int(2 * tiles * steps + 4 * tiles + 8 * steps + OTHER_REGISTERS)
