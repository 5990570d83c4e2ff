"""Search space of the form for channels last on sparse tensor cores on CUDA."""

from __future__ import annotations

from functools import cached_property

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import MAX_RESIDENT, occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

VECTOR = 8  # channels in 16 bytes
TILE = 8  # outputs of a tile, and tiles of a product
TAPS = (4, 6)  # least and most of a kernel along either side
MIN_WIDTH = 20  # least of an output's plane
TILE_ROWS = (2, 4)  # of a tile: a tile one column wide would begin in the middle of two words
SIZE = 2  # bytes of an element
CHANNELS = (16, 128)  # least and most of a block: fewer are half a sector of memory
STRIPS = (1, 2, 4, 7)  # into how many a plane may be cut
MAX_TAPS = 80  # the most words of taps that a thread holds
MAX_MOVES = 16  # the most vectors that it reads at once
MAX_REGISTERS = 168  # the most that a thread may be estimated to need
BESIDE = 44  # registers for addresses, words and the like
SPARED = 24  # how many of these the compiler can save if it must
RESERVED = 1024  # bytes of shared memory that each block takes beside its own


class CudaChannelsSparse(Template[DepthwiseConv2dWorkload]):
    """16-bit products of a sparse Toeplitz matrix and input (``schedules/channels_sparse.cu``).

    Channels are last. The matrix has the taps of a pair of channels, and half of it is zero; the
    input's words are taken as they lie. A tile is ``tile_rows`` by 8 / ``tile_rows`` outputs.
    Knobs:

    - ``tile_rows``: see above.
    - ``stack``: tiles below each other that share what is read.
    - ``channels``, ``walks``: channels and images of a block.
    - ``rows``: height of a block's strip.
    - ``each``: pairs of channels that a warp has.
    - ``resident``: how many blocks a unit has room for, at least.
    - ``stores``: how results are cached.
    """

    name = "channels_sparse"
    kind = "cuda"
    version = 3
    arithmetic = TENSOR_CORES

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept the kernels and planes for which a prototype of this form was the fastest.

        They are 16-bit NHWC with channels in whole vectors and without a multiplier, a stride, a
        dilation or a residual, on CUDA from compute capability 8.0 on. On an H200 the prototype
        took 9.4 µs where ``channels_toeplitz`` took 11.8 (32×240×28², 5 by 5 taps, bfloat16). In
        nine layers of other taps, or of planes of 14 and 7 columns, it took 1.03 to 1.53 times as
        long as the fastest of the other templates.
        """
        least, most = TAPS
        return (
            super().applies(workload, limits)
            and workload.dtype != "float32"
            and limits.capability >= 80
            and (workload.layout, workload.multiplier) == ("NHWC", 1)
            and (workload.stride, workload.dilation, workload.residual) == (1, 1, False)
            and workload.C % VECTOR == 0
            and workload.out_width >= MIN_WIDTH
            and all(least <= axis.count <= most for axis in workload.used_taps)
            and any(_fits(workload, c, limits) for c in _smallest(workload))
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        tiles, walks = _tile_rows(workload), _walks(workload)
        space = ConfigSpace(self.name, self.version)
        space.knob("tile_rows", tiles)
        space.knob("stack", [1, 2, 3, 4, 7])
        space.knob("each", [1, 2, 4])
        space.knob("channels", _channels(workload))
        space.knob("rows", sorted({r for n in tiles for r in _rows(workload, n)}))
        space.knob("walks", walks)
        space.knob("resident", [1, 2, 3, 4, 5, 6])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            f"at most {MAX_TAPS} words of taps and {MAX_REGISTERS} registers a thread",
            lambda c: _fits_registers(workload, c),
            reads=("tile_rows", "stack", "each"),
        )
        space.constraint(
            "a block's threads are whole warps, and no more than a block may have",
            lambda c: _has_whole_warps(c, limits),
            reads=("channels",),
        )
        space.constraint(
            "strips of whole tiles, of which stacks are less than a third higher",
            lambda c: (
                c["rows"] in _rows(workload, c["tile_rows"])
                and (c["stack"] == 1 or _padded_rows(c) < 1.34 * c["rows"])
            ),
            reads=("rows",),
        )
        space.constraint(
            f"products more than half full, or of all images, and at most {MAX_MOVES} vectors read",
            lambda c: _filled(workload, c),
            reads=("walks",),
        )
        space.constraint(
            "the threads, the registers and the shared memory of the resident blocks fit",
            lambda c: _resident_blocks_fit(workload, c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return high strips of few channels, with as many images as fill a product."""
        space = self.space(workload, limits)
        base: Config = {"template": self.name, "each": 1, "resident": 1, "stores": "cached"}
        choices = [
            base
            | {"tile_rows": tile, "stack": stack, "channels": channels, "rows": rows, "walks": n}
            for tile in _tile_rows(workload)
            for channels in _channels(workload)[:2]
            for rows in reversed(_rows(workload, tile))
            for n in _walks(workload)
            for stack in (4, 2, 1)
        ]
        return next((config for config in choices if config in space), space[0])

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        layout, registers = Layout(workload, config), _registers(workload, config)
        threads = layout.threads
        resident = resident_blocks(
            threads, registers, limits, limits.shared_memory // (layout.shared_bytes + RESERVED)
        )
        stacks = layout.parts * layout.groups * config["each"]
        return {
            **occupancy(layout.blocks, threads, resident, limits),
            "shared_bytes": layout.shared_bytes,
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "parts": layout.parts,
            "products_per_thread": stacks * config["stack"] * layout.products,
            "reads_per_thread": stacks * layout.reads,
            "run_bytes": SIZE * config["channels"],
            "moves": layout.moves,
            "filled": layout.filled * config["rows"] / _padded_rows(config),
            "reads_per_row": layout.deep / config["rows"],
            "streaming": config["stores"] == "streaming",
        }


class Layout:
    """A block's work and shared memory, as ``channels_sparse.cu`` has them. Sizes are in words."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: Config) -> None:
        self._workload, self._config = workload, config
        self._across, self._down = _products(workload, config["tile_rows"])
        self.products: int = self._across * self._down
        """Products that sum a tile of a pair of channels."""
        self.threads: int = 32 * (config["channels"] // 2) // config["each"]

    @property
    def blocks(self) -> int:
        """Return the blocks of the grid."""
        workload, config = self._workload, self._config
        strips = ceil_div(workload.out_height, config["rows"])
        groups = workload.C // config["channels"] * ceil_div(workload.B, config["walks"])
        return int(groups * strips)

    @property
    def parts(self) -> int:
        """Return the parts of a strip, each of which is as high as a stack."""
        return ceil_div(self._config["rows"], self._config["stack"] * self._config["tile_rows"])

    @property
    def groups(self) -> int:
        """Return the products beside each other in a part."""
        return ceil_div(self._tiles * self._config["walks"], TILE)

    @property
    def filled(self) -> float:
        """Return the share of a product's columns that belongs to some plane."""
        columns = self._workload.out_width * self._config["walks"]
        return float(columns / (TILE * self.groups * self._tile_columns))

    @property
    def reads(self) -> int:
        """Return the pairs of words that a thread reads for a stack."""
        rows = (self._config["stack"] - 1) * self._config["tile_rows"] // 2 + self._down
        return int(2 * rows * self._across)

    @property
    def moves(self) -> int:
        """Return the vectors that a thread reads at once, which are those of the first part."""
        places = self.threads // (self._config["channels"] // VECTOR)
        passes = ceil_div(self._workload.W, places)
        beside = places // ceil_div(self._workload.W, passes)
        rows = self.deep - (self.parts - 1) * self._config["stack"] * self._config["tile_rows"]
        return int(self._config["walks"] * passes * ceil_div(rows, beside))

    @property
    def deep(self) -> int:
        """Return the input rows of a strip."""
        tile, stack = self._config["tile_rows"], self._config["stack"]
        return int((self.parts * stack - 1) * tile + 2 * self._down)

    @cached_property
    def pitch(self) -> int:
        """Return the words from a row to the next.

        If tiles are four columns wide, it is four words above a multiple of eight, so that the rows
        of a tile, as they are stored, lie in banks of their own. Otherwise it is even.
        """
        used = (self._tiles - 1) * self._tile_columns + TILE * self._across
        return used + used % 2 if self._tile_columns < 4 else ceil_div(used - 4, 8) * 8 + 4

    @cached_property
    def walk(self) -> int:
        """Return the words from an image to the next.

        If planes are narrow, it is eight words above a multiple of 16, so that tiles lie apart.
        """
        size = self.deep * self.pitch
        return ceil_div(size - 8, 16) * 16 + 8 if self._tiles < 4 else size

    @cached_property
    def plane(self) -> int:
        """Return the words from a pair of channels to the next.

        It is an odd number of units of two or four words, which are the words that pairs move
        together.
        """
        apart = 4 if self._config["channels"] <= 2 * TILE else 2
        size = ceil_div(self._config["walks"] * self.walk, apart) * apart
        return int(size if size // apart % 2 else size + apart)

    @property
    def shared_bytes(self) -> int:
        height, width = (axis.count for axis in self._workload.used_taps)
        words = self._config["channels"] // 2 * (self.plane + height * width)
        return int(4 * ceil_div(words, 4) * 4)

    @property
    def _tile_columns(self) -> int:
        return int(TILE // self._config["tile_rows"])

    @property
    def _tiles(self) -> int:
        """Return the tiles of a row."""
        return ceil_div(self._workload.out_width, self._tile_columns)


def _products(workload: DepthwiseConv2dWorkload, tile: int) -> tuple[int, int]:
    """Return how many products beside and below each other sum a tile of ``tile`` rows.

    A product takes eight input columns of two input rows.
    """
    down, across = workload.used_taps
    return ceil_div(TILE // tile + across.count - 1, 8), ceil_div(tile + down.count - 1, 2)


def _tile_rows(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the heights of tiles, those that need the fewest products first."""

    def products(tile: int) -> int:
        across, down = _products(workload, tile)
        return across * down

    return sorted((n for n in TILE_ROWS if n < 2 * workload.out_height or n == 2), key=products)


def _channels(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the divisors of the channels that are whole vectors; short ones only if need be."""
    least, most = CHANNELS
    divisors = [n for n in range(VECTOR, most + 1, VECTOR) if workload.C % n == 0]
    return [n for n in divisors if n >= least] or divisors[-1:]


def _walks(workload: DepthwiseConv2dWorkload) -> list[int]:
    return [n for n in (1, 2, 4, 8) if n == 1 or n < 2 * workload.B]


def _rows(workload: DepthwiseConv2dWorkload, tile: int) -> list[int]:
    """Return the heights of strips that share a plane out evenly, in whole tiles."""
    height = workload.out_height
    return sorted({ceil_div(ceil_div(height, n), tile) * tile for n in STRIPS if n <= height})


def _padded_rows(config: Config) -> int:
    """Return the rows of all stacks of a strip."""
    step = config["stack"] * config["tile_rows"]
    return int(ceil_div(config["rows"], step) * step)


def _taps(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the words of taps that a thread holds."""
    across, down = _products(workload, config["tile_rows"])
    return int(config["each"] * 4 * across * down)


def _sums(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers of a thread while it sums."""
    return int(_taps(workload, config) + 4 * config["stack"] + BESIDE)


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: taps, and sums or what is read at once."""
    reading = _taps(workload, config) + 4 * Layout(workload, config).moves + BESIDE - SPARED
    return max(_sums(workload, config), reading)


def _fits_registers(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether a thread has registers for taps and sums."""
    return _taps(workload, config) <= MAX_TAPS and _sums(workload, config) <= MAX_REGISTERS


def _has_whole_warps(config: Config, limits: DeviceLimits) -> bool:
    """Return whether all warps have as many pairs, and a block an allowed number of threads."""
    threads = 32 * (config["channels"] // 2) // config["each"]
    return bool(
        config["channels"] % (2 * config["each"]) == 0 and 64 <= threads <= limits.threads_per_block
    )


def _filled(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether products are more than half full, and a thread can hold what it reads.

    Products that are as full as they can be are enough.
    """
    layout, walks = Layout(workload, config), _walks(workload)
    full = 2 * layout.filled > 1 or config["walks"] == walks[-1]
    return full and layout.moves <= MAX_MOVES


def _smallest(workload: DepthwiseConv2dWorkload) -> list[Config]:
    """Return configurations that need little, with all kinds of tiles and numbers of images."""
    base: Config = {"stack": 1, "channels": _channels(workload)[0], "resident": 1}
    return [
        base | {"tile_rows": tile, "rows": rows, "walks": walks, "each": each}
        for tile in _tile_rows(workload)
        for rows in _rows(workload, tile)
        for walks in _walks(workload)
        for each in (1, 2, 4)
    ]


def _fits(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    return (
        _fits_registers(workload, config)
        and _has_whole_warps(config, limits)
        and _filled(workload, config)
        and _resident_blocks_fit(workload, config, limits)
    )


def _resident_blocks_fit(
    workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
) -> bool:
    """Return whether a unit has threads, registers and shared memory for the resident blocks."""
    layout, resident = Layout(workload, config), config["resident"]
    registers = limits.registers_per_unit // (layout.threads * resident) // 8 * 8
    return bool(
        layout.threads * resident <= MAX_RESIDENT
        and _registers(workload, config) - SPARED <= registers
        and resident * (layout.shared_bytes + RESERVED) <= limits.shared_memory + RESERVED
    )
