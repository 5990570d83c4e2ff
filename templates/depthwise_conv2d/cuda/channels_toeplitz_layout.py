"""Work and shared memory of a block of ``channels_toeplitz``, for its space and its program."""

from __future__ import annotations

from functools import cached_property

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.template import Config

VECTOR = 8  # channels in 16 bytes
SIZE = 2  # bytes of an element
BESIDE = 34  # registers for addresses and the like
SPARED = 16  # how many of these the compiler can save if it must
REGISTERS = 2**16  # of a unit of any device that the template serves


class Layout:
    """A block's work and shared memory, as ``channels_toeplitz.cu`` lays them out."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: Config) -> None:
        self._workload, self._config = workload, config
        tile, s = config["tile_rows"], workload.stride
        self.down: int = tile * s
        self.parts = parts_of(workload, tile)
        self.ring: int = ceil_div(reach_of(workload, tile), self.down)

    @property
    def blocks(self) -> int:
        """Return the number of blocks in the grid."""
        workload, config = self._workload, self._config
        across = ceil_div(workload.C, config["channels"]) * ceil_div(
            workload.out_width, 8 * config["lines"]
        )
        strips = ceil_div(workload.out_height, config["rows"])
        return int(across * strips * ceil_div(workload.B, config["walks"]))

    @property
    def warps(self) -> int:
        shares = ceil_div(fragments_of(self._config), self._config["fragments"])
        return int(self._config["channels"] // self._config["warp_channels"] * shares)

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def steps(self) -> int:
        """Return the number of steps in which a block goes down its strip."""
        return self.tiles + self.ring - 1

    @property
    def tiles(self) -> int:
        """Return the number of tiles of a strip, which are one below the other."""
        return ceil_div(self._config["rows"], self._config["tile_rows"])

    @property
    def input_steps(self) -> int:
        """Return the number of steps of a held plane whose input has rows in the plane."""
        top = self._workload.used_taps[0].before
        below = min((self._workload.H + top - 1) // self.down + 1, self.steps)
        return int(below - max(top, 0) // self.down)

    @property
    def inputs(self) -> int:
        """Return the number of steps in the ring, or of pieces of a held plane's input."""
        if self._config["piece"] == 0:
            return int(self._config["stages"])
        return int(ceil_div(self.input_steps, self.piece))

    @property
    def fetched_bytes(self) -> int:
        """Return the most bytes of input that are being copied at the same time."""
        return (self.inputs - int(self._config["piece"] == 0)) * self.input_piece

    @property
    def outputs(self) -> int:
        """Return the number of steps, or of pieces, for whose results there is room.

        Residuals are copied to the places of the results, as far ahead as inputs. Without
        residuals, threads write one step, or piece, while other results are copied to global
        memory.
        """
        config, residual = self._config, self._workload.residual
        if config["piece"] > 0:
            pieces = int(ceil_div(self.tiles, self.piece))
            return pieces if residual else min(pieces, 3)
        if residual:
            return int(config["stages"]) + 1
        if config["copies"] == "threads":
            return 2
        return 4 if self.ring == 4 else 3  # so a ring of 3 or 4 has the same places in each turn

    @property
    def piece(self) -> int:
        """Return the number of steps of a piece of a held plane, or 1 for a ring."""
        return max(1, int(self._config["piece"]))

    @property
    def used(self) -> int:
        """Return the number of input columns that the lines of an image reach."""
        s, lines = self._workload.stride, self._config["lines"]
        wide = 4 - 4 // self._config["tile_rows"]
        return int(8 * s * (lines - 1) + s * wide + 4 * (self.parts + s))

    @property
    def wide(self) -> int:
        """Return the number of input columns of a tensor copy."""
        return ceil_div(self.used, 8) * 8

    @cached_property
    def input_piece(self) -> int:
        """Return the bytes of the input rows of a step, or of a piece."""
        config, s = self._config, self._workload.stride
        if config["copies"] == "tensor":
            row = self.wide * SIZE * config["channels"]
        else:
            row = _apart(self._place(self.used - 1, 8 * s) + self._pitch, 64)
        return int(self.piece * self.down * config["walks"] * row)

    @property
    def shared_bytes(self) -> int:
        config = self._config
        weights = config["channels"] * self._workload.taps * SIZE
        if config["copies"] == "tensor":
            barriers = self.inputs + 1
            if config["piece"] > 0 and self._workload.residual:
                barriers += self.outputs
            pattern = 8 * SIZE * config["channels"]  # bytes after which a swizzle repeats
            weights += ceil_div(8 * barriers, 128) * 128
            weights = ceil_div(weights, pattern) * pattern
        return int(weights + self.inputs * self.input_piece + self.outputs * self._output_piece)

    @property
    def _output_piece(self) -> int:
        """Return the bytes of the output rows of a step, or of a piece."""
        config, tile = self._config, self._config["tile_rows"]
        if config["copies"] == "tensor":
            row = 8 * config["lines"] * SIZE * config["channels"]
            return int(self.piece * tile * config["walks"] * row)
        walk = _apart(self._place(8 * config["lines"] - 1, 8) + self._pitch, 64)
        return int(self.piece * tile * _apart(config["walks"] * walk, 128 // tile % 128))

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
    """Return the least number from ``size`` on that is a multiple of 128 plus ``banks``, in
    bytes."""
    return ceil_div(size - banks, 128) * 128 + banks


def reach_of(workload: DepthwiseConv2dWorkload, tile: int) -> int:
    """Return the number of input rows from the first to the last that a tile meets."""
    return (tile - 1) * workload.stride + workload.used_taps[0].span


def parts_of(workload: DepthwiseConv2dWorkload, tile: int) -> int:
    """Return the number of groups of four input columns that a tile reaches."""
    return ceil_div((4 // tile - 1) * workload.stride + workload.used_taps[1].span, 4)


def fragments_of(config: Config) -> int:
    """Return the number of fragments that a block has of each of its channels."""
    return int(ceil_div(config["lines"] * config["walks"] * config["tile_rows"], 8))


def rows_reached(workload: DepthwiseConv2dWorkload, tile: int) -> set[int]:
    """Return the input rows that meet some tap of a tile."""
    rows, taps = range(tile), range(workload.used_kernel[0])
    return {i * workload.stride + k * workload.dilation for i in rows for k in taps}


def registers_of(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: taps, sums, an input row, biases, addresses."""
    tile, fragments = config["tile_rows"], config["fragments"]
    parts = parts_of(workload, tile)
    ring = ceil_div(reach_of(workload, tile), tile * workload.stride)
    taps = len(rows_reached(workload, tile)) * parts
    sums, row = 4 * ring * fragments, fragments * (parts + workload.stride)
    pairs, biases = config["warp_channels"] // 2, 2 * workload.bias
    return int(pairs * (taps + sums + row + biases) + 2 * fragments + BESIDE)


def has_room_for_biases(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether a lane has registers for the biases of all its sums, which are twice as many
    as :func:`registers_of` counts."""
    threads = Layout(workload, config).threads * config["resident"]
    needed = registers_of(workload, config) + config["warp_channels"] - SPARED
    return bool(needed <= min(REGISTERS // threads, 255))
