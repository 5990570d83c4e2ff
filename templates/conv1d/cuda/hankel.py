"""CudaHankel: the search space of tensor-core products for channels apart with some taps."""

from __future__ import annotations

from math import gcd

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import has_tensor_cores_for
from templates.kernels.launches.next_launch import begins_next, next_launches
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 96  # a warp holds all taps
MAX_TILES = 64
WIDTHS = (16, 32)
MAX_REGISTERS = 208  # as estimated
OTHER_REGISTERS = 24  # registers for sums, addresses and so on
SPARED = 8  # registers by which the estimate may exceed the limit: the compiler can save them


class CudaHankel(Template[Conv1dWorkload]):
    """Channels apart with 2 to 96 taps, as products of a Hankel matrix of samples on tensor cores.

    It is for 16 bits, channels first (``schedules/hankel.cu``). Memory limits its speed, as it does
    that of ``CudaWindow`` for few taps. With more taps, multiply-adds limit the speed of
    ``CudaWindow``.

    A warp holds a channel's taps and goes through ``tiles`` tiles of 16 segments of ``width``
    outputs. ``stages`` tiles are loaded ahead. A warp reads and writes ``vector`` elements at a
    time, or fewer if the rows of a signal do not fill whole vectors. Registers are limited so that
    ``resident`` blocks fit on a unit. ``next_launch`` says whether the next launch may begin
    ``early``, once a block has asked for its taps, or ``late``.
    """

    name = "hankel"
    kind = "cuda"
    version = 4
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return (
            super().applies(workload, limits)
            and has_tensor_cores_for(workload.dtype, limits)
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
        space.knob("next_launch", next_launches(limits))
        counts = {
            (width, vector): _tiles_of_channel(workload, {"width": width, "vector": vector})
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
            "no more stages than tiles, and no more tiles than a channel has",
            lambda c: c["stages"] <= c["tiles"] <= counts[c["width"], c["vector"]],
            reads=("tiles",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        space = self.space(workload, limits)
        base = {"threads": 128, "resident": 1, "stores": "cached", "next_launch": "late"}
        choices: list[Config] = [
            {"template": self.name, "width": width, "vector": vector, "stages": 1, "tiles": t}
            | base
            for width in ((32, 16) if workload.length > 16 else (16,))
            for vector in reversed(_vectors(workload))
            for t in (4, 2, 1)
        ]
        return next((config for config in choices if config in space), space[0])

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, registers = config["threads"], _registers(workload, config)
        read, written = vectors(workload, config)
        samples = _samples(read) * parts(workload, config)  # of a segment
        count, width = _tiles_of_channel(workload, config), config["width"]
        return {
            **bounded_occupancy(config, blocks(workload, config), threads, registers, limits),
            "products": samples // 16 * width // 8 * config["tiles"],
            "fetched_bytes": 2 * 16 * samples * config["stages"],
            "reads_per_output": samples / width,
            "vector_bytes": 2 * read,
            "stored_vector_bytes": 2 * written,
            "warps_per_channel": ceil_div(count, config["tiles"]),
            "padded_share": 16 * width * count / (workload.B * workload.length),
            "streaming": config["stores"] == "streaming",
            "next_begins_early": begins_next(config),
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    warps = workload.out_channels * ceil_div(_tiles_of_channel(workload, config), config["tiles"])
    return ceil_div(warps, config["threads"] // 32)


def vectors(workload: Conv1dWorkload, config: Config) -> tuple[int, int]:
    """Return the numbers of elements of an input vector and of an output vector. All rows of a
    signal together are a whole number of vectors."""
    inside = gcd(workload.C * workload.M, config["vector"])
    outside = gcd(workload.out_channels * workload.length, config["vector"], config["width"] // 4)
    return inside, outside


def segments(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of segments of a row. The first one begins before the row if the row begins
    within a vector."""
    most = max(shift for shift, _ in _alignment_shifts(workload, config))
    return ceil_div(workload.length + most, config["width"])


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many reads four lanes need for the samples that a segment meets. The first read
    begins at the boundary of a vector."""
    most = max(pad for _, pad in _alignment_shifts(workload, config))
    reach = config["width"] - 1 + workload.N + most
    return ceil_div(reach, _samples(vectors(workload, config)[0]))


def _samples(vector: int) -> int:
    return 4 * max(vector, 4)


def _alignment_shifts(workload: Conv1dWorkload, config: Config) -> set[tuple[int, int]]:
    """Return the pairs of shifts, in elements, that occur among the channels. The first shift is
    the distance by which the first segment begins before its row. The second is the distance by
    which reading begins before the first needed sample.

    ``hankel_tiles`` in ``hankel.cu`` computes the same for its channel.
    """
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


def _tiles_of_channel(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of tiles of a channel."""
    return ceil_div(workload.B * segments(workload, config), 16)


def _tiles(workload: Conv1dWorkload) -> list[int]:
    """Return the values of ``tiles``: powers of two, and those that divide a channel's tiles evenly
    among one to eight warps."""
    widest = _vectors(workload)[-1]
    counts = [_tiles_of_channel(workload, {"width": width, "vector": widest}) for width in WIDTHS]
    alike = {ceil_div(count, warps) for count in counts for warps in range(1, 9)}
    return sorted(t for t in {1, 2, 4, 8} | alike if t <= min(counts[0], MAX_TILES))


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: taps, half of them twice because operands are
    aligned pairs, sums, the elements loaded ahead and addresses."""
    read, written = vectors(workload, config)
    width, count = config["width"], parts(workload, config)
    taps = count * (max(read, 4) // 2 + width // 8 - 1)
    held = 2 * count * max(read, 4) // (1 if read == 1 else 2) + 4
    if workload.residual:
        held += width // 2 // (1 if written == 1 else 2)
    return int(taps + taps // 2 + width // 2 + held * config["stages"] + OTHER_REGISTERS)
