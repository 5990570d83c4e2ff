"""CudaWeightRows: the search space of the weight's gradient of channels apart, on CUDA."""

from __future__ import annotations

from functools import cache

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.as_image import has_image
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import occupancy, registers_each, resident_blocks
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 32  # of a tile
MAX_UNROLLED = 1024  # multiply-adds
MAX_REGISTERS = 200  # as estimated
OTHER_REGISTERS = 34  # registers for addresses and so on
PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # at most


class CudaWeightRows(Template[Conv1dWorkload]):
    """The weight's gradient of channels apart, as sums over the rows of a channel.

    A block sums ``taps`` taps of an output channel over one of up to ``parts`` parts of its rows. A
    thread has ``vector`` neighbouring outputs a step, and reads ``batch`` steps before it uses
    them. If there are several parts, a second launch adds up their sums. Registers are limited so
    that ``resident`` blocks fit on a unit.
    """

    name = "weight_rows"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is the weight's gradient of channels apart on CUDA. With
        channels last, kernel or stride must be beyond the limits of depthwise convolution, because
        its template serves the other workloads."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_weight"
            and not workload.is_dense
            and (workload.layout == "NCW" or not has_image(workload))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("taps", _tiles(workload))
        space.knob("vector", _vectors(workload))
        space.knob("batch", [1, 2, 4])
        space.knob("threads", [64, 128, 256, 512])
        space.knob("parts", list(PARTS))
        space.knob("resident", [1, 2, 4])
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled and {MAX_REGISTERS} registers",
            lambda c: (
                c["taps"] * c["vector"] * c["batch"] <= MAX_UNROLLED
                and _registers(workload, c) <= MAX_REGISTERS
            ),
            reads=("batch",),
        )
        space.constraint(
            "several outputs a vector only if a block sums all taps",
            lambda c: c["vector"] == 1 or c["taps"] == workload.N,
            reads=("vector",),
        )
        space.constraint(
            "a block's threads cover less than twice a row, or are the fewest",
            lambda c: c["threads"] == 64 or c["threads"] * c["vector"] < 2 * workload.length,
            reads=("threads",),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory,
            reads=("threads",),
        )
        space.constraint(
            "the parts give each unit about one, four or sixteen blocks, if there is work for them",
            lambda c: (
                c["parts"] in _useful_part_counts(*_steps_and_blocks(workload, c), limits.units)
            ),
            reads=("parts",),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: c["resident"] == 1 or _registers(workload, c) <= registers_each(c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        config: Config = {
            "template": self.name,
            "taps": _tiles(workload)[-1],
            "vector": 1,
            "batch": 1,
            "threads": 64,
            "resident": 1,
        }
        wide = config | {"vector": _vectors(workload)[-1]}
        if _registers(workload, wide) <= MAX_REGISTERS and wide["taps"] * 8 <= MAX_UNROLLED:
            config = wide
        counts = _useful_part_counts(*_steps_and_blocks(workload, config), limits.units)
        return config | {"parts": counts[0]}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, registers = config["threads"], _registers(workload, config)
        resident = resident_blocks(threads, registers, limits)
        steps, _ = _steps_and_blocks(workload, config)
        size = BYTES_PER_ELEMENT[workload.dtype]
        return {
            **occupancy(blocks(workload, config), threads, resident, limits),
            "shared_bytes": 4 * shared_words(workload, config),
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "steps": steps / parts(workload, config),
            "products_per_step": config["taps"] * config["vector"],
            "fetched_bytes": config["batch"] * config["vector"] * size,
            "vector_bytes": config["vector"] * size,
            "filled": workload.B * workload.length / (steps * threads * config["vector"]),
            "workspace": workspace(workload, config),
        }


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts: that of the knob, but at most the number of steps."""
    steps, _ = _steps_and_blocks(workload, config)
    return int(min(steps, config["parts"]))


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    _, across = _steps_and_blocks(workload, config)
    return across * parts(workload, config)


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Return the floats of the workspace, 0 if there is one part."""
    several = parts(workload, config)
    return several * workload.out_channels * (workload.N + workload.bias) if several > 1 else 0


def shared_words(workload: Conv1dWorkload, config: Config) -> int:
    return int((config["taps"] + workload.bias) * (config["threads"] + 32))


def _steps_and_blocks(workload: Conv1dWorkload, config: Config) -> tuple[int, int]:
    """Return how many steps a block needs for all rows of a channel, and how many blocks a part
    has."""
    steps = workload.B * ceil_div(workload.length, config["threads"] * config["vector"])
    return steps, workload.out_channels * ceil_div(workload.N, config["taps"])


@cache
def _useful_part_counts(steps: int, across: int, units: int) -> tuple[int, ...]:
    """Return the values of ``parts`` that give each unit about one, four or sixteen blocks, if
    there are ``across`` blocks a part."""
    asked = (min(steps, ceil_div(n * units, across)) for n in (1, 4, 16))
    return tuple(sorted({next((n for n in PARTS if n >= each), PARTS[-1]) for each in asked}))


def _tiles(workload: Conv1dWorkload) -> list[int]:
    """Return the values of ``taps``: all taps, but at most 32. If there are more than 16, also 8
    and 16."""
    few = [8, 16] if workload.N > 16 else []
    return [*few, workload.N] if workload.N <= MAX_TAPS else [*few, MAX_TAPS]


def _vectors(workload: Conv1dWorkload) -> list[int]:
    """Return the values of ``vector``: lengths that divide the rows of input and output. The only
    value is 1 if neighbouring outputs do not meet neighbouring samples."""
    near = (workload.stride, workload.dilation) == (1, 1) and workload.N <= MAX_TAPS
    together = near and workload.layout == "NCW"
    return vector_lengths(workload.dtype, workload.M, workload.length) if together else [1]


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: sums, elements read and addresses."""
    vector, taps = config["vector"], config["taps"]
    words = ceil_div(vector * BYTES_PER_ELEMENT[workload.dtype], 4)
    read = ceil_div(vector + taps - 1, vector) + 1 if vector > 1 else taps
    gradients = 2 if workload.activation != "none" else 1
    return int(taps + config["batch"] * (read + gradients) * words + OTHER_REGISTERS)
