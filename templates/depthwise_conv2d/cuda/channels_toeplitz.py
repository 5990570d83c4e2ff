"""Search space of the tensor-core form for channels last on CUDA."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.channels_toeplitz_layout import (
    SIZE,
    SPARED,
    VECTOR,
    Layout,
    fragments_of,
    registers_of,
    rows_reached,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.halves import has_tensor_cores_for
from templates.kernels.launches.next_launch import begins_next, next_launches
from templates.kernels.occupancy import MAX_RESIDENT, occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

CHANNELS = (16, 256)  # least and most of a block: fewer make short pieces of memory
USUAL_CHANNELS = (32, 128)  # least and most that a default has, if it can
TENSOR_CHANNELS = (16, 32, 64)  # of a block with tensor copies: a span of a swizzle in 16 bits
MOST_COLUMNS = 256  # of a tensor copy
MOST_TILES = 8  # of a held plane, one below the other: its steps are unrolled
STRIPS = (1, 2, 3, 4, 5, 6, 8, 14)  # into how many a plane may be cut
MAX_REGISTERS = 232  # the most that a thread may be estimated to need


class CudaChannelsToeplitz(Template[DepthwiseConv2dWorkload]):
    """16-bit products of an input row and a Toeplitz matrix (``schedules/channels_toeplitz.cu``).

    Channels are last, and a product takes pairs of them in the order of memory. A block goes down a
    strip of rows of several images. A tile is ``tile_rows`` by 4 / ``tile_rows`` outputs. Knobs:

    - ``tile_rows``: see above.
    - ``rows``: height of a strip.
    - ``walks``, ``channels``: images and channels of a block.
    - ``lines``: width of a block, in lines of eight columns.
    - ``warp_channels``: channels of a warp.
    - ``fragments``: fragments, of 16 tiles each, that a warp has of each of its channels.
    - ``stages``: number of steps in the ring of input rows, which are copied ``stages`` - 1 steps
      ahead.
    - ``piece``: if it is not 0, a block holds all rows of its planes, and a strip is a whole plane.
      Rows are copied in pieces of ``piece`` steps, and ``stages`` has no effect.
    - ``next_launch``: whether the next launch may begin ``early``, once a block has its last input,
      or ``late``, when all blocks have ended.
    - ``resident``: the least number of blocks for which a unit has room.
    - ``stores``: how results are cached.
    - ``copies``: how rows and results are copied: by all ``threads``, or by ``tensor`` copies,
      which one thread starts. With tensor copies, a block may have channels beyond the tensor's.
    """

    name = "channels_toeplitz"
    kind = "cuda"
    version = 10
    arithmetic = TENSOR_CORES

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept 16-bit NHWC on CUDA without a multiplier, with more than one tap.

        float16 needs compute capability 7.5, bfloat16 8.0. Channels must be whole vectors, and the
        taps must fit in registers.
        """
        return (
            super().applies(workload, limits)
            and has_tensor_cores_for(workload.dtype, limits)
            and (workload.layout, workload.multiplier) == ("NHWC", 1)
            and workload.C % VECTOR == 0
            and workload.taps > 1
            and _fits(workload, _smallest(workload), limits)
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        tiles = [n for n in (1, 2, 4) if n < 2 * workload.out_height]
        space = ConfigSpace(self.name, self.version)
        space.knob("tile_rows", tiles)
        space.knob("warp_channels", [4, 8])
        space.knob("fragments", [1, 2, 4])
        space.knob("copies", ["threads", "tensor"] if limits.copies_tensors else ["threads"])
        space.knob("channels", sorted({*_channels(workload), *_tensor_channels(workload, limits)}))
        space.knob("lines", _lines(workload))
        space.knob("walks", [n for n in (1, 2, 3, 4, 6, 8) if n == 1 or n < 2 * workload.B])
        space.knob("resident", [1, 2, 3, 4])
        space.knob("rows", sorted({r for n in tiles for r in _rows(workload, n)}))
        space.knob("stages", [2, 3, 4, 6])
        space.knob("piece", [0, 1, 2, 4])
        space.knob("stores", ["cached", "streaming"])
        space.knob("next_launch", next_launches(limits))
        space.constraint(
            f"at most {MAX_REGISTERS} registers a thread",
            lambda c: registers_of(workload, c) <= MAX_REGISTERS,
            reads=("tile_rows", "warp_channels", "fragments"),
        )
        space.constraint(
            f"channels divides C or, with tensor copies, is one of {list(TENSOR_CHANNELS)}",
            lambda c: _can_copy(workload, c),
            reads=("copies", "channels"),
        )
        space.constraint(
            f"a tensor copy has at most {MOST_COLUMNS} columns",
            lambda c: c["copies"] == "threads" or Layout(workload, c).wide <= MOST_COLUMNS,
            reads=("copies", "lines"),
        )
        space.constraint(
            "more than half of a block's tiles are in planes, or it has one fragment",
            lambda c: _filled(workload, c) > 0.5 or c["fragments"] == fragments_of(c) == 1,
            reads=("lines", "walks"),
        )
        space.constraint(
            "the threads and the registers of the resident blocks fit",
            lambda c: _resident_blocks_fit(workload, c, limits),
            reads=("resident",),
        )
        space.constraint(
            "strips have whole tiles and divide a plane evenly",
            lambda c: c["rows"] in _rows(workload, c["tile_rows"]),
            reads=("rows",),
        )
        space.constraint(
            "no more stages than a strip has steps, or two",
            lambda c: c["stages"] == 2 or c["stages"] <= Layout(workload, c).steps,
            reads=("stages",),
        )
        space.constraint(
            "a piece only if stages is 2 and a strip is a whole plane, which has at most "
            f"{MOST_TILES} tiles and enough steps for a piece",
            lambda c: c["piece"] == 0 or _can_hold(workload, c),
            reads=("piece",),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory for the resident blocks",
            lambda c: Layout(workload, c).shared_bytes * c["resident"] <= limits.shared_memory,
            reads=("piece",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return tensor copies in one wave, or the highest strips that leave blocks for most
        units."""
        space, smallest = self.space(workload, limits), _smallest(workload)
        if (config := _one_wave(workload, limits, space)) is not None:
            return config
        lines = [n for n in _lines(workload) if n <= 8][-1]
        walks = [n for n in (1, 2, 4) if n == 1 or (n * lines <= 8 and n < 2 * workload.B)][-1]
        base = smallest | {"lines": lines, "walks": walks}
        choices = [
            base | {"rows": rows, "channels": channels, "warp_channels": each, "stages": stages}
            for rows in reversed(_rows(workload, smallest["tile_rows"]))
            for channels in reversed(_usual(workload))
            for each in (8, 4)
            for stages in (3, 2)
        ]
        valid = [c for c in choices if c in space]
        for config in valid:
            if 4 * Layout(workload, config).blocks >= 3 * limits.units:
                return config
        return valid[-1] if valid else smallest

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        layout, registers = Layout(workload, config), registers_of(workload, config)
        threads = layout.threads
        resident = min(
            max(1, _warps(registers, limits) // layout.warps),
            max(1, limits.unit_shared_memory // layout.shared_bytes),
            max(1, MAX_RESIDENT // threads),
        )
        row = layout.warps * config["fragments"] * config["warp_channels"] // 2  # tiles, pairs
        rows_of_tile = len(rows_reached(workload, config["tile_rows"]))
        strip = layout.steps * layout.down
        products = row * rows_of_tile * ceil_div(layout.parts, 2)
        return {
            **occupancy(layout.blocks, threads, resident, limits),
            "shared_bytes": layout.shared_bytes,
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "steps": layout.steps,
            "products": layout.blocks * products * ceil_div(config["rows"], config["tile_rows"]),
            "products_per_step": products,
            "run_bytes": SIZE * config["channels"],
            "fetched_bytes": layout.fetched_bytes,
            "reads_per_row": strip / (workload.stride * config["rows"]),
            "filled": _filled(workload, config),
            "streaming": config["stores"] == "streaming",
            "tensor_copies": config["copies"] == "tensor",
            "piece": config["piece"],
            "next_begins_early": begins_next(config),
        }


def _smallest(workload: DepthwiseConv2dWorkload) -> Config:
    """Return the smallest configuration, with the tiles that need the fewest registers."""
    base = {
        "template": CudaChannelsToeplitz.name,
        "warp_channels": 4,
        "fragments": 1,
        "channels": _channels(workload)[0],
        "lines": 1,
        "walks": 1,
        "resident": 1,
        "stages": 2,
        "piece": 0,
        "stores": "cached",
        "copies": "threads",
        "next_launch": "late",
    }
    tiles = [n for n in (2, 1, 4) if n < 2 * workload.out_height]
    configs = [base | {"tile_rows": n, "rows": _rows(workload, n)[0]} for n in tiles]
    return min(configs, key=lambda config: registers_of(workload, config))


def _fits(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    return (
        registers_of(workload, config) <= MAX_REGISTERS
        and _resident_blocks_fit(workload, config, limits)
        and Layout(workload, config).shared_bytes <= limits.shared_memory
    )


def _resident_blocks_fit(
    workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
) -> bool:
    """Return whether a unit has enough threads and registers for the resident blocks."""
    layout, resident = Layout(workload, config), config["resident"]
    registers = registers_of(workload, config) - SPARED
    return (
        layout.threads <= limits.threads_per_block
        and layout.threads * resident <= MAX_RESIDENT
        and layout.warps * resident <= _warps(registers, limits)
    )


def _warps(registers: int, limits: DeviceLimits) -> int:
    """Return the number of warps that fit on a unit if each thread takes ``registers``.

    Each quarter of a unit holds the same number of warps.
    """
    return limits.registers_per_unit // (4 * limits.warp_size * registers) * 4


def _channels(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return divisors of the channels that are whole vectors. One below the least number of
    channels is returned only if there is no other."""
    least, most = CHANNELS
    divisors = [n for n in range(VECTOR, most + 1, VECTOR) if workload.C % n == 0]
    return [n for n in divisors if n >= least] or divisors[-1:]


def _tensor_channels(workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> list[int]:
    """Return the channels that a block may have if it copies tensors, less than twice all
    channels."""
    return [n for n in TENSOR_CHANNELS if limits.copies_tensors and n < 2 * workload.C]


def _can_copy(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether blocks fill the channels exactly, or a tensor copy can take a block."""
    if config["copies"] == "tensor":
        return config["channels"] in TENSOR_CHANNELS
    return workload.C % int(config["channels"]) == 0


def _can_hold(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether a block can hold its planes, and their input has enough steps for a piece."""
    layout = Layout(workload, config)
    return (
        config["stages"] == 2
        and config["rows"] >= workload.out_height
        and layout.tiles <= MOST_TILES
        and config["piece"] <= layout.input_steps
    )


def _one_wave(
    workload: DepthwiseConv2dWorkload, limits: DeviceLimits, space: ConfigSpace
) -> Config | None:
    """Return a configuration with tensor copies whose blocks are all resident at the same time.

    Blocks hold their planes if that is valid and there are blocks for most units. Otherwise the
    configuration has as many resident blocks as fit, and the lowest strips whose blocks are all
    resident. If even the highest strips, or whole planes, are too many, it has these all the same.
    Return None if no configuration is valid.
    """
    channels = [n for n in _tensor_channels(workload, limits) if n <= USUAL_CHANNELS[0]]
    if not channels:
        return None
    lines = [n for n in _lines(workload) if n <= 4][-1]
    walks = [n for n in (1, 2, 4) if n == 1 or (n * lines <= 4 and n < 2 * workload.B)][-1]
    base = _smallest(workload) | {"copies": "tensor", "lines": lines, "walks": walks}
    base |= {"channels": channels[-1], "warp_channels": 8, "stores": "streaming"}
    base["next_launch"] = next_launches(limits)[0]
    base["stages"] = 4 if Layout(workload, base).ring == 4 else 3
    plane = base | {"rows": _rows(workload, base["tile_rows"])[-1], "stages": 2}
    blocks = Layout(workload, plane).blocks
    for piece in (2, 1):
        choices = [plane | {"piece": piece, "resident": n} for n in (1, 2, 3, 4)]
        if 4 * blocks >= 3 * limits.units and (valid := [c for c in choices if c in space]):
            return next((c for c in valid if blocks <= c["resident"] * limits.units), valid[-1])
    for resident in (4, 3, 2, 1):
        choices = [
            base | {"resident": resident, "rows": n} for n in _rows(workload, base["tile_rows"])
        ]
        if valid := [c for c in choices if c in space]:
            room = resident * limits.units
            return next((c for c in valid if Layout(workload, c).blocks <= room), valid[-1])
    return None


def _usual(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the numbers of channels that are neither few nor many, or else the smallest."""
    least, most = USUAL_CHANNELS
    found = [n for n in _channels(workload) if least <= n <= most]
    return found or _channels(workload)[:1]


def _lines(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return how many lines of eight columns a block may have.

    It is one, or the number that covers a row, half a row or a quarter of a row.
    """
    whole = ceil_div(workload.out_width, 8)
    return sorted({1} | {n for parts in (1, 2, 4) if (n := ceil_div(whole, parts)) <= 16})


def _rows(workload: DepthwiseConv2dWorkload, tile: int) -> list[int]:
    """Return the heights of strips that divide a plane evenly, in whole tiles."""
    height = workload.out_height
    return sorted({ceil_div(ceil_div(height, n), tile) * tile for n in STRIPS if n <= height})


def _filled(workload: DepthwiseConv2dWorkload, config: Config) -> float:
    """Return the share of a block's tiles that belongs to some plane, on average."""
    fragments = ceil_div(fragments_of(config), config["fragments"]) * config["fragments"]
    across = ceil_div(workload.out_width, 8 * config["lines"])
    computed = (
        64 // config["tile_rows"] * fragments * across * ceil_div(workload.B, config["walks"])
    )
    return float(workload.out_width * workload.B / computed)
