"""Search space of the tensor-core form for channels last on CUDA."""

from __future__ import annotations

from functools import cached_property

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.halves import has_tensor_cores_for
from templates.kernels.occupancy import MAX_RESIDENT, occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

VECTOR = 8  # channels in 16 bytes
SIZE = 2  # bytes of an element
CHANNELS = (32, 256)  # least and most of a block: fewer make short pieces of memory
STRIPS = (1, 2, 3, 4, 5, 6, 8, 14)  # into how many a plane may be cut
MAX_REGISTERS = 232  # the most that a thread may be estimated to need
BESIDE = 34  # registers for addresses and the like
SPARED = 16  # how many of these the compiler can save if it must


class CudaChannelsToeplitz(Template[DepthwiseConv2dWorkload]):
    """16-bit products of an input row and a Toeplitz matrix (``schedules/channels_toeplitz.cu``).

    Channels are last, and a product takes pairs of them as they lie. A block goes down a strip of
    rows of several images. A tile is ``tile_rows`` by 4 / ``tile_rows`` outputs. Knobs:

    - ``tile_rows``: see above.
    - ``rows``: height of a strip.
    - ``walks``, ``channels``: images and channels of a block.
    - ``lines``: width of a block, in lines of eight columns.
    - ``warp_channels``: channels of a warp.
    - ``fragments``: fragments, of 16 tiles each, that a warp has of each of its channels.
    - ``stages``: input rows are copied ``stages`` - 1 steps ahead.
    - ``resident``: how many blocks a unit has room for, at least.
    - ``stores``: how results are cached.
    """

    name = "channels_toeplitz"
    kind = "cuda"
    version = 5
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
        space.knob("channels", _channels(workload))
        space.knob("lines", _lines(workload))
        space.knob("walks", [n for n in (1, 2, 3, 4, 6, 8) if n == 1 or n < 2 * workload.B])
        space.knob("resident", [1, 2, 3, 4])
        space.knob("rows", sorted({r for n in tiles for r in _rows(workload, n)}))
        space.knob("stages", [2, 3, 4, 6])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            f"at most {MAX_REGISTERS} registers a thread",
            lambda c: _registers(workload, c) <= MAX_REGISTERS,
            reads=("tile_rows", "warp_channels", "fragments"),
        )
        space.constraint(
            "less than half of the tiles outside the planes, or one fragment",
            lambda c: _filled(workload, c) > 0.5 or c["fragments"] == _fragments(c) == 1,
            reads=("lines", "walks"),
        )
        space.constraint(
            "the threads and the registers of the resident blocks fit",
            lambda c: _resident_blocks_fit(workload, c, limits),
            reads=("resident",),
        )
        space.constraint(
            "strips of whole tiles",
            lambda c: c["rows"] in _rows(workload, c["tile_rows"]),
            reads=("rows",),
        )
        space.constraint(
            "no more stages than a strip has steps, or two",
            lambda c: c["stages"] == 2 or c["stages"] <= Layout(workload, c).steps,
            reads=("stages",),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory for the resident blocks",
            lambda c: Layout(workload, c).shared_bytes * c["resident"] <= limits.shared_memory,
            reads=("stages",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return strips as high, with as many channels, as leave blocks for most units."""
        space, smallest = self.space(workload, limits), _smallest(workload)
        lines = [n for n in _lines(workload) if n <= 8][-1]
        walks = [n for n in (1, 2, 4) if n == 1 or (n * lines <= 8 and n < 2 * workload.B)][-1]
        base = smallest | {"lines": lines, "walks": walks}
        choices = [
            base | {"rows": rows, "channels": channels, "warp_channels": each, "stages": stages}
            for rows in reversed(_rows(workload, smallest["tile_rows"]))
            for channels in reversed(_channels(workload))
            for each in (8, 4)
            for stages in (3, 2)
        ]
        valid = [c for c in choices if c["channels"] in _usual(workload) and c in space]
        for config in valid:
            if 4 * Layout(workload, config).blocks >= 3 * limits.units:
                return config
        return valid[-1] if valid else smallest

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        layout, registers = Layout(workload, config), _registers(workload, config)
        threads = layout.threads
        resident = min(
            max(1, _warps(registers, limits) // layout.warps),
            max(1, limits.unit_shared_memory // layout.shared_bytes),
            max(1, MAX_RESIDENT // threads),
        )
        row = layout.warps * config["fragments"] * config["warp_channels"] // 2  # tiles, pairs
        rows_of_tile = len(_rows_reached(workload, config["tile_rows"]))
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
            "fetched_bytes": (config["stages"] - 1) * layout.input_step,
            "reads_per_row": strip / (workload.stride * config["rows"]),
            "filled": _filled(workload, config),
            "streaming": config["stores"] == "streaming",
        }


class Layout:
    """A block's work and shared memory, as ``channels_toeplitz.cu`` lays them out."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: Config) -> None:
        self._workload, self._config = workload, config
        tile, s = config["tile_rows"], workload.stride
        self.down: int = tile * s
        self.parts = _parts(workload, tile)
        self._ring = ceil_div(_reach(workload, tile), self.down)

    @property
    def blocks(self) -> int:
        """Return the blocks of the grid."""
        workload, config = self._workload, self._config
        across = (
            workload.C // config["channels"] * ceil_div(workload.out_width, 8 * config["lines"])
        )
        strips = ceil_div(workload.out_height, config["rows"])
        return int(across * strips * ceil_div(workload.B, config["walks"]))

    @property
    def warps(self) -> int:
        shares = ceil_div(_fragments(self._config), self._config["fragments"])
        return int(self._config["channels"] // self._config["warp_channels"] * shares)

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def steps(self) -> int:
        """Return the steps in which a block goes down its strip."""
        return ceil_div(self._config["rows"], self._config["tile_rows"]) + self._ring - 1

    @cached_property
    def input_step(self) -> int:
        """Return the bytes of the input rows of a step."""
        s, lines = self._workload.stride, self._config["lines"]
        wide = 4 - 4 // self._config["tile_rows"]
        used = 8 * s * (lines - 1) + s * wide + 4 * (self.parts + s)
        row = _apart(self._place(used - 1, 8 * s) + self._pitch, 64)
        return int(self.down * self._config["walks"] * row)

    @property
    def shared_bytes(self) -> int:
        config, tile = self._config, self._config["tile_rows"]
        walk = _apart(self._place(8 * config["lines"] - 1, 8) + self._pitch, 64)
        output_step = tile * _apart(config["walks"] * walk, 128 // tile % 128)
        outputs = config["stages"] + 1 if self._workload.residual else 2
        weights = config["channels"] * self._workload.taps * SIZE
        return int(weights + config["stages"] * self.input_step + outputs * output_step)

    @property
    def _pitch(self) -> int:
        """Return the bytes from a column in shared memory to the next, an odd number of vectors."""
        return int(16 * (self._config["channels"] // VECTOR | 1))

    def _place(self, column: int, line: int) -> int:
        """Return the byte offset of a column in its row in shared memory.

        ``line`` is the number of columns of a line; the lines may be skewed.
        """
        skew = 64 if self._config["tile_rows"] == 1 else 0
        return column * self._pitch + column // line * skew


def _apart(size: int, banks: int) -> int:
    """Return the least number from ``size`` on that is ``banks`` bytes above a multiple of 128."""
    return ceil_div(size - banks, 128) * 128 + banks


def _smallest(workload: DepthwiseConv2dWorkload) -> Config:
    """Return the configuration that needs least; its tiles are those of the fewest registers."""
    base = {
        "template": CudaChannelsToeplitz.name,
        "warp_channels": 4,
        "fragments": 1,
        "channels": _channels(workload)[0],
        "lines": 1,
        "walks": 1,
        "resident": 1,
        "stages": 2,
        "stores": "cached",
    }
    tiles = [n for n in (2, 1, 4) if n < 2 * workload.out_height]
    configs = [base | {"tile_rows": n, "rows": _rows(workload, n)[0]} for n in tiles]
    return min(configs, key=lambda config: _registers(workload, config))


def _fits(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    return (
        _registers(workload, config) <= MAX_REGISTERS
        and _resident_blocks_fit(workload, config, limits)
        and Layout(workload, config).shared_bytes <= limits.shared_memory
    )


def _resident_blocks_fit(
    workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
) -> bool:
    """Return whether a unit has threads and registers for the resident blocks."""
    layout, resident = Layout(workload, config), config["resident"]
    registers = _registers(workload, config) - SPARED
    return (
        layout.threads <= limits.threads_per_block
        and layout.threads * resident <= MAX_RESIDENT
        and layout.warps * resident <= _warps(registers, limits)
    )


def _warps(registers: int, limits: DeviceLimits) -> int:
    """Return for how many warps a unit has registers, if each thread takes ``registers``.

    Each quarter of a unit holds as many warps.
    """
    return limits.registers_per_unit // (4 * limits.warp_size * registers) * 4


def _channels(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return divisors of the channels that are whole vectors; of short ones only the longest."""
    least, most = CHANNELS
    divisors = [n for n in range(VECTOR, most + 1, VECTOR) if workload.C % n == 0]
    short = [n for n in divisors if n < least]
    return short[-1:] + [n for n in divisors if n >= least]


def _usual(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return numbers of channels that are neither few nor many, if there are any."""
    found = [n for n in _channels(workload) if CHANNELS[0] <= n <= 128]
    return found or _channels(workload)[:1]


def _lines(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return how many lines of eight columns a block may have.

    It is one, or as many as cover a row, half of it or a quarter of it.
    """
    whole = ceil_div(workload.out_width, 8)
    return sorted({1} | {n for parts in (1, 2, 4) if (n := ceil_div(whole, parts)) <= 16})


def _rows(workload: DepthwiseConv2dWorkload, tile: int) -> list[int]:
    """Return the heights of strips that share a plane out evenly, in whole tiles."""
    height = workload.out_height
    return sorted({ceil_div(ceil_div(height, n), tile) * tile for n in STRIPS if n <= height})


def _reach(workload: DepthwiseConv2dWorkload, tile: int) -> int:
    """Return the input rows from the first to the last that a tile meets."""
    return (tile - 1) * workload.stride + workload.used_taps[0].span


def _parts(workload: DepthwiseConv2dWorkload, tile: int) -> int:
    """Return the input columns that a tile reaches, by fours."""
    return ceil_div((4 // tile - 1) * workload.stride + workload.used_taps[1].span, 4)


def _rows_reached(workload: DepthwiseConv2dWorkload, tile: int) -> set[int]:
    """Return the input rows that meet some tap of a tile."""
    rows, taps = range(tile), range(workload.used_kernel[0])
    return {i * workload.stride + k * workload.dilation for i in rows for k in taps}


def _fragments(config: Config) -> int:
    """Return the fragments of a block, for each of its channels."""
    return int(ceil_div(config["lines"] * config["walks"] * config["tile_rows"], 8))


def _filled(workload: DepthwiseConv2dWorkload, config: Config) -> float:
    """Return the share of a block's tiles that belongs to some plane, on average."""
    fragments = ceil_div(_fragments(config), config["fragments"]) * config["fragments"]
    across = ceil_div(workload.out_width, 8 * config["lines"])
    computed = (
        64 // config["tile_rows"] * fragments * across * ceil_div(workload.B, config["walks"])
    )
    return float(workload.out_width * workload.B / computed)


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: taps, sums, an input row, addresses."""
    tile, fragments = config["tile_rows"], config["fragments"]
    parts = _parts(workload, tile)
    ring = ceil_div(_reach(workload, tile), tile * workload.stride)
    taps = len(_rows_reached(workload, tile)) * parts
    sums, row = 4 * ring * fragments, fragments * (parts + workload.stride)
    pairs = config["warp_channels"] // 2
    return int(pairs * (taps + sums + row) + 2 * fragments + BESIDE)
