"""CudaWindow: the search space of direct sums of channels apart with few taps on CUDA."""

from __future__ import annotations

import math

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.kernels.vectors import longest_vector
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 64  # a thread holds all taps
MAX_PRODUCTS = 2048  # multiply-adds unrolled
MAX_REGISTERS = 232  # as estimated
OTHER_REGISTERS = 24  # registers for addresses and so on
LANES = 32  # of a warp. They pass each other the elements beside their vectors
WORD_BYTES = 4


class CudaWindow(Template[Conv1dWorkload]):
    """Direct sum of channels apart with few taps, channels first, in registers alone.

    Memory limits its speed (``schedules/window.cu``). A thread holds the taps of a row, reads
    ``vector`` elements at a time straight into registers, and sums ``outputs`` neighbouring
    outputs, at ``steps`` places of the row.

    With ``reads`` "window", a thread holds all samples that these outputs meet. With "taps", it
    reads the samples of each tap separately, which pays if dilation puts them far apart. With
    "lanes", it takes the samples beside its own vector from neighbouring lanes, if they are few.
    Registers are limited so that ``resident`` blocks fit on a unit.
    """

    name = "window"
    kind = "cuda"
    version = 5
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return (
            super().applies(workload, limits)
            and not (workload.is_dense or workload.is_basic)
            and (workload.layout == "NCW" or workload.C == workload.out_channels == 1)
            and workload.N <= MAX_TAPS
            and len(self.space(workload, limits)) > 0
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("outputs", [1, 2, 4, 8, 16, 32])
        space.knob("vector", _vectors(workload))
        space.knob("steps", [1, 2, 4])
        space.knob("reads", _reads(workload))
        space.knob("threads", [t for t in (64, 128, 256, 512) if t <= limits.threads_per_block])
        space.knob("resident", [1, 2, 3, 4, 5, 6, 8, 10, 12, 16])
        space.knob("stores", ["cached", "streaming"])
        length = workload.length
        space.constraint(
            "a thread has fewer than twice as many outputs as a row, or one",
            lambda c: c["outputs"] == 1 or c["outputs"] < 2 * length,
            reads=("outputs",),
        )
        space.constraint(
            "vector divides the product of outputs and stride",
            lambda c: c["outputs"] * workload.stride % c["vector"] == 0,
            reads=("vector",),
        )
        space.constraint(
            "a thread's steps cover less than twice a row, or steps is 1",
            lambda c: c["steps"] == 1 or c["steps"] * c["outputs"] < 2 * length,
            reads=("steps",),
        )
        space.constraint(
            'with reads "lanes", outputs equals vector, and the neighbouring vectors hold all '
            "else that the outputs meet",
            lambda c: (
                c["reads"] != "lanes"
                or (
                    c["outputs"] == c["vector"]
                    and max(1, *_words_beside(workload)) <= _words_per_vector(workload, c)
                )
            ),
            reads=("reads",),
        )
        space.constraint(
            'with reads "lanes", whole warps compute less than a third more outputs than a row has',
            lambda c: c["reads"] != "lanes" or _padded(workload, c) < 1.34,
            reads=("reads",),
        )
        space.constraint(
            f"at most {MAX_PRODUCTS} multiply-adds or vectors unrolled",
            lambda c: (
                c["steps"] * max(c["outputs"] * workload.N, vectors(workload, c)) <= MAX_PRODUCTS
            ),
            reads=("reads",),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: _registers(workload, c) <= min(MAX_REGISTERS, registers_each(c, limits)),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        space = self.space(workload, limits)
        base = {"steps": 1, "threads": 128, "resident": 1, "stores": "cached"}
        choices: list[Config] = [
            {"template": self.name, "outputs": outputs, "vector": vector, "reads": reads, **base}
            for reads in ("window", "taps")
            for outputs in (8, 4, 2, 1)
            for vector in reversed(_vectors(workload))
        ]
        return next((config for config in choices if config in space), space[0])

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, registers = config["threads"], _registers(workload, config)
        each, outputs = config["outputs"], config["outputs"] * config["steps"]
        read = vectors(workload, config) * config["vector"]
        return {
            **bounded_occupancy(config, blocks(workload, config), threads, registers, limits),
            "outputs_per_thread": outputs,
            "work_per_thread": outputs * workload.N,
            "fetched_bytes": config["steps"] * read * BYTES_PER_ELEMENT[workload.dtype],
            "vector_bytes": config["vector"] * BYTES_PER_ELEMENT[workload.dtype],
            "reads_per_output": read / (each * workload.stride),
            "padded_share": _padded(workload, config),
            "streaming": config["stores"] == "streaming",
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return ceil_div(workload.rows * _threads_of_row(workload, config), config["threads"])


def vectors(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many vectors a thread reads in a step."""
    reach, vector = (config["outputs"] - 1) * workload.stride, int(config["vector"])
    if config["reads"] == "lanes":
        return 1
    if config["reads"] == "taps":
        return int(workload.N * (reach // vector + 2))
    return int((reach + (workload.N - 1) * workload.dilation) // vector + 2)


def vector_dividing(workload: Conv1dWorkload, extent: int) -> int:
    """Return the longest vector, in elements: a power of two that divides the extent and is no
    wider than one load can be."""
    return math.gcd(extent, longest_vector(workload.dtype))


def _reads(workload: Conv1dWorkload) -> list[str]:
    before, behind = workload.left, (workload.N - 1) * workload.dilation - workload.left
    taps = ["taps"] if workload.dilation > 1 else []
    lanes = ["lanes"] if workload.stride == 1 and before >= 0 and behind >= 0 else []
    return ["window", *taps, *lanes]


def _words_beside(workload: Conv1dWorkload) -> tuple[int, ...]:
    """Return how many words before and behind its own vector a thread's outputs meet.

    Counts up to 4 are rounded up to 0, 1, 2 or 4, the words that one load can have. With more
    words, ``reads`` "lanes" is not valid.
    """
    reach = (workload.N - 1) * workload.dilation
    size = BYTES_PER_ELEMENT[workload.dtype]
    before, behind = (
        ceil_div(elements * size, WORD_BYTES) for elements in (workload.left, reach - workload.left)
    )
    return tuple(words if words in (0, 1, 2) else max(4, words) for words in (before, behind))


def _words_per_vector(workload: Conv1dWorkload, config: Config) -> int:
    """Return the whole 32-bit words of a vector, 0 if it is shorter than a word."""
    return int(config["vector"] * BYTES_PER_ELEMENT[workload.dtype] // WORD_BYTES)


def _threads_of_row(workload: Conv1dWorkload, config: Config) -> int:
    together = LANES if config["reads"] == "lanes" else 1
    outputs = together * config["outputs"] * config["steps"]
    return ceil_div(workload.length, outputs) * together


def _padded(workload: Conv1dWorkload, config: Config) -> float:
    """Return the number of outputs that threads compute for each existing output, at least 1."""
    outputs = config["outputs"] * config["steps"]
    return float(_threads_of_row(workload, config) * outputs / workload.length)


def _vectors(workload: Conv1dWorkload) -> list[int]:
    widest = vector_dividing(workload, workload.M)
    return [v for v in (1, 2, 4, 8) if v <= widest and 4 * v >= widest]


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: sums, taps, the elements read for this step and
    the next, and addresses."""
    size, outputs = BYTES_PER_ELEMENT[workload.dtype], config["outputs"]
    held = vectors(workload, config) * ceil_div(config["vector"] * size, 4)
    if config["reads"] == "window" and config["steps"] > 1:
        held *= 2
    if config["reads"] == "lanes":
        own = (config["steps"] + 1) * _words_per_vector(workload, config)
        held = own + sum(_words_beside(workload))
    residual = ceil_div(outputs * size, 4) if workload.residual else 0
    return int(outputs + ceil_div(workload.N * size, 4) + held + residual + OTHER_REGISTERS)
