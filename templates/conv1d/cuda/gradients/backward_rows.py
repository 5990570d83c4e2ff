"""CudaBackwardRows: the search space of all gradients in one program, channels first, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.kernels.vectors import longest_vector
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

LANES = 32
OTHER_REGISTERS = (
    14  # registers for addresses and so on, if the program is limited to few registers
)
STEPS = (4, 8, 16, 32, 64, 128)
FEW_PARTS = 64  # for at most so many parts, one thread adds up a sum


class CudaBackwardRows(Template[Conv1dWorkload]):
    """All gradients of channels apart, channels first, in one pass over each row.

    A warp goes through ``steps`` tiles of a row. Of each tile, a lane has ``vector`` neighbouring
    samples and their outputs (see ``Frame``), which it reads ``ahead`` tiles before it uses them.
    It computes the sums again from its own samples and those of its neighbours, and adds up the
    gradients of weight and bias in registers. If a channel has several warps, a second launch adds
    up their results. Registers are limited so that ``resident`` blocks fit on a unit.
    """

    name = "backward_rows"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is direction backward, channels first, on CUDA, and the
        distance from the first tap to the last is no more than the samples that a lane may have."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward"
            and workload.layout == "NCW"
            and bool(_vectors(workload))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("vector", _vectors(workload))
        space.knob("steps", list(STEPS))
        space.knob("ahead", [1, 2, 3])
        space.knob("threads", [64, 128, 256])
        space.knob("resident", [1, 2, 4, 6, 8])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "a warp has fewer than twice as many steps as a row has tiles, or the fewest",
            lambda c: c["steps"] == STEPS[0] or c["steps"] < 2 * tiles(workload, c),
            reads=("vector", "steps"),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: c["resident"] == 1 or _registers(workload, c) <= registers_each(c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        """Return the configuration with the fewest parts that give each unit sixteen warps."""
        config: Config = {
            "template": self.name,
            "vector": _vectors(workload)[0],
            "steps": STEPS[0],
            "ahead": 1,
            "threads": 128,
            "resident": 1,
            "stores": "cached",
        }
        for steps in STEPS[1:]:
            longer = config | {"steps": steps}
            fits = steps < 2 * tiles(workload, longer)
            if fits and blocks(workload, longer) * 4 >= 16 * limits.units:
                config = longer
        return config

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, registers = config["threads"], _registers(workload, config)
        size = BYTES_PER_ELEMENT[workload.dtype]
        covered = tiles(workload, config) * LANES * config["vector"]
        return {
            **bounded_occupancy(config, blocks(workload, config), threads, registers, limits),
            "vector_bytes": config["vector"] * size,
            "fetched_bytes": 2 * config["ahead"] * config["vector"] * size,
            "steps": min(config["steps"], tiles(workload, config)),
            "parts": parts_of_channel(workload, config),
            "filled": Frame.of(workload).extent / covered,
            "streaming": config["stores"] == "streaming",
            "workspace": workspace(workload, config),
        }


def tiles(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of tiles of a row."""
    return Frame.of(workload).tiles(LANES * config["vector"])


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of a row. Each part has one warp."""
    return ceil_div(tiles(workload, config), config["steps"])


def parts_of_channel(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of a channel in all signals."""
    return workload.B * parts(workload, config)


def threads_per_sum(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many threads of the second launch add up the parts of a sum."""
    return LANES if parts_of_channel(workload, config) > FEW_PARTS else 1


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return ceil_div(workload.C * parts_of_channel(workload, config) * LANES, config["threads"])


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Return the floats of the workspace, 0 if a channel has one part."""
    several = parts_of_channel(workload, config)
    return several * workload.C * (workload.N + workload.bias) if several > 1 else 0


def _vectors(workload: Conv1dWorkload) -> list[int]:
    """Return the values of ``vector``: one or two loads, if they are no shorter than the distance
    from the first tap to the last."""
    one = longest_vector(workload.dtype)
    return [n for n in (one, 2 * one) if n >= workload.span - 1]


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: samples and sums' gradients, the elements read
    for this step and the next ones, taps and their sums, and addresses."""
    vector, reach = config["vector"], workload.span - 1
    words = ceil_div(vector * BYTES_PER_ELEMENT[workload.dtype], 4)
    on_their_way = 2 * (config["ahead"] + 1) * words
    return int(2 * (vector + reach) + reach + on_their_way + 2 * workload.N + OTHER_REGISTERS)
