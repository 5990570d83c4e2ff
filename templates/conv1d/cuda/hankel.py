"""The space of the tensor-core form for a kernel for each channel on CUDA."""

from __future__ import annotations

from math import gcd

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import are_multiplied
from templates.kernels.occupancy import occupancy, registers_each, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

MAX_TAPS = 96  # of which a warp holds all
MAX_TILES = 64
WIDTHS = (16, 32)
MAX_REGISTERS = 208  # as estimated
BESIDE = 24  # registers for sums, addresses and the like
SPARED = 8  # of these, if it must be


class CudaHankel(Template[Conv1dWorkload]):
    """For output channels of one input channel each, with some taps, channels first, in 16 bits:
    limited by memory, as ``window`` is until its multiply-adds take longer. A warp holds a
    channel's taps for ``tiles`` tiles of 16 segments of ``width`` outputs, one after the other,
    ``stages`` of which are on their way. It reads and writes ``vector`` elements at a time, or as
    many as divide all rows of a signal. ``resident`` blocks at least have room on a unit
    (``schedules/hankel.cu``)."""

    name = "hankel"
    kind = "cuda"
    version = 2
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return (
            super().applies(workload, limits)
            and are_multiplied(workload.dtype, limits)
            and not (workload.is_dense or workload.is_basic)
            and (workload.layout == "NCW" or workload.C == workload.out_channels == 1)
            and workload.stride == workload.dilation == 1
            and 2 <= workload.N <= MAX_TAPS
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("width", WIDTHS)
        space.knob("vector", _vectors(workload))
        space.knob("stages", [1, 2, 4])
        space.knob("threads", [t for t in (64, 128, 256, 512) if t <= limits.threads_per_block])
        space.knob("resident", [1, 2, 4, 7, 8])
        space.knob("tiles", _tiles(workload))
        space.knob("stores", ["cached", "streaming"])
        counts = {
            (width, vector): _count(workload, {"width": width, "vector": vector})
            for width in WIDTHS
            for vector in _vectors(workload)
        }
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: (
                _registers(workload, c) - SPARED <= min(MAX_REGISTERS, registers_each(c, limits))
            ),
            reads=("resident",),
        )
        space.constraint(
            "no more stages than tiles, nor tiles than there are",
            lambda c: c["stages"] <= c["tiles"] <= counts[c["width"], c["vector"]],
            reads=("tiles",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        space = self.space(workload, limits)
        base = {"threads": 128, "resident": 1, "stores": "cached"}
        choices: list[Config] = [
            {"template": self.name, "width": width, "vector": vector, "stages": 1, "tiles": t}
            | base
            for width in ((32, 16) if workload.length > 16 else (16,))
            for vector in reversed(_vectors(workload))
            for t in (4, 2, 1)
        ]
        return next((config for config in choices if config in space), space[0])

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        threads, registers = config["threads"], _registers(workload, config)
        resident = resident_blocks(threads, registers, limits)
        read, written = vectors(workload, config)
        samples = _samples(read) * parts(workload, config)  # of a segment
        count, width = _count(workload, config), config["width"]
        return {
            **occupancy(blocks(workload, config), threads, resident, limits),
            "shared_bytes": 0,
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "products": samples // 16 * width // 8 * config["tiles"],
            "fetched_bytes": 2 * 16 * samples * config["stages"],
            "reads_per_output": samples / width,
            "vector_bytes": 2 * read,
            "stored_vector_bytes": 2 * written,
            "warps_per_channel": ceil_div(count, config["tiles"]),
            "padded_share": 16 * width * count / (workload.B * workload.length),
            "streaming": config["stores"] == "streaming",
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    warps = workload.out_channels * ceil_div(_count(workload, config), config["tiles"])
    return ceil_div(warps, config["threads"] // 32)


def vectors(workload: Conv1dWorkload, config: Config) -> tuple[int, int]:
    """Elements of those of the input and the output: all rows of a signal are a whole number."""
    inside = gcd(workload.C * workload.M, config["vector"])
    outside = gcd(workload.out_channels * workload.length, config["vector"], config["width"] // 4)
    return inside, outside


def segments(workload: Conv1dWorkload, config: Config) -> int:
    """Of a row. The first begins before it where it begins within a vector."""
    most = max(shift for shift, _ in _begins(workload, config))
    return ceil_div(workload.length + most, config["width"])


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Of what a segment reaches from a vector's boundary on, as much as four lanes read at once."""
    most = max(pad for _, pad in _begins(workload, config))
    reach = config["width"] - 1 + workload.N + most
    return ceil_div(reach, _samples(vectors(workload, config)[0]))


def _samples(vector: int) -> int:
    return 4 * max(vector, 4)


def _begins(workload: Conv1dWorkload, config: Config) -> set[tuple[int, int]]:
    """By how many elements segments begin before the row, and their samples before the first that
    is needed, in one channel or another: ``hankel_tiles`` works them out."""
    read, written = vectors(workload, config)
    period = min(workload.out_channels, 8 * workload.multiplier)
    shifts = [f * workload.length % written for f in range(period)]
    return {
        (shift, (f // workload.multiplier * workload.M - shift - workload.left) % read)
        for f, shift in enumerate(shifts)
    }


def _vectors(workload: Conv1dWorkload) -> list[int]:
    extents = workload.C * workload.M, workload.out_channels * workload.length
    widest = max(gcd(extent, 8) for extent in extents)
    return [v for v in (1, 2, 4, 8) if widest <= 4 * v <= 4 * widest]


def _count(workload: Conv1dWorkload, config: Config) -> int:
    """Tiles of a channel."""
    return ceil_div(workload.B * segments(workload, config), 16)


def _tiles(workload: Conv1dWorkload) -> list[int]:
    """Powers of two, and those that make a channel's warps alike."""
    widest = _vectors(workload)[-1]
    counts = [_count(workload, {"width": width, "vector": widest}) for width in WIDTHS]
    alike = {ceil_div(count, warps) for count in counts for warps in range(1, 9)}
    return sorted(t for t in {1, 2, 4, 8} | alike if t <= min(counts[0], MAX_TILES))


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Estimated: taps, half of them twice, as operands are aligned pairs; sums, what is on its way,
    addresses."""
    read, written = vectors(workload, config)
    width, count = config["width"], parts(workload, config)
    taps = count * (max(read, 4) // 2 + width // 8 - 1)
    held = 2 * count * max(read, 4) // (1 if read == 1 else 2) + 4
    if workload.residual:
        held += width // 2 // (1 if written == 1 else 2)
    return int(taps + taps // 2 + width // 2 + held * config["stages"] + BESIDE)
