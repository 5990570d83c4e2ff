"""Work of a weight's gradient, divided into parts whose sums a second launch adds up."""

from __future__ import annotations

from dataclasses import dataclass

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload

WAVES = (1, 2, 3, 4)  # blocks for each unit
UNEVEN_WAVES = (2, 4, 8, 16, 32)  # the same if tiles of taps meet unequal parts of the planes
MAX_SIDE = 9  # the most taps along a side of a tile
SLICES = 16  # the most slices of the parts. Each is a warp of a block of the second launch


@dataclass(frozen=True)
class Work:
    """The work of a weight's gradient, as ``schedules/weight_places.cu`` divides it.

    The rows of all images follow one another and are cut into ranges. A block sums all columns of a
    range, and goes down ``images`` images side by side. If ``images`` is 0, it sums any ``points``
    places of ``columns`` columns. The number of ranges is such that there are about
    ``blocks_wanted`` blocks, but each range has at least one row.
    """

    workload: DepthwiseConv2dWorkload
    columns: int
    tap_rows: int
    tap_columns: int
    channels: int  # of a block
    points: int
    images: int
    blocks_wanted: int

    @property
    def groups(self) -> int:
        """Return the number of groups of ``columns`` columns in a row of outputs."""
        return ceil_div(self.workload.out_width, self.columns)

    @property
    def rows(self) -> int:
        """Return the number of rows of all images, or of all sets of ``images`` side by side."""
        return ceil_div(self.workload.B, max(1, self.images)) * self.workload.out_height

    @property
    def ranges(self) -> int:
        """Return the number of ranges of rows."""
        wanted = self.blocks_wanted // self.across
        if not self.images:
            wanted = wanted * self.points // self.groups
        return max(1, min(wanted, self.rows))

    @property
    def parts(self) -> int:
        """Return the number of parts of the result. ``across`` blocks write each part."""
        return self.ranges if self.images else ceil_div(self.ranges * self.groups, self.points)

    @property
    def steps(self) -> float:
        """Return about how many steps a range takes.

        They are its rows, and for each image the rows that complete the ring.
        """
        rows = self.rows / self.ranges
        return rows + (rows / self.workload.out_height + 1) * (self.ring - 1)

    @property
    def tiles(self) -> int:
        """Return the number of tiles of taps of a channel."""
        down, across = self.workload.used_kernel
        return ceil_div(down, self.tap_rows) * ceil_div(across, self.tap_columns)

    @property
    def across(self) -> int:
        """Return the number of blocks of a part."""
        return self.tiles * (self.workload.out_channels // self.channels)

    @property
    def blocks(self) -> int:
        """Return the number of blocks of the first launch."""
        return self.parts * self.across

    @property
    def sums(self) -> int:
        """Return the number of sums of a channel."""
        down, across = self.workload.used_kernel
        return down * across + self.workload.bias

    @property
    def workspace(self) -> int:
        """Return the number of floats that the first launch writes for the second."""
        return self.parts * self.sums * self.workload.out_channels

    @property
    def last_blocks(self) -> int:
        """Return the number of blocks of the second launch."""
        taps = self.workload.kernel[0] * self.workload.kernel[1]
        return ceil_div(self.workload.out_channels, 32) * (taps + self.workload.bias)

    @property
    def slices(self) -> int:
        """Return the number of slices of the parts in the second launch. A warp adds up a slice."""
        return min(SLICES, self.parts)

    @property
    def ring(self) -> int:
        """Return the number of rows of the gradient that an input row meets."""
        return ring(self.workload, self.tap_rows)


def ring(workload: DepthwiseConv2dWorkload, tap_rows: int) -> int:
    """Return how many rows of the gradient an input row meets in a tile of ``tap_rows`` rows."""
    return ((tap_rows - 1) * workload.dilation + workload.stride) // workload.stride


def blocks(workload: DepthwiseConv2dWorkload, units: int) -> list[int]:
    """Return approximate numbers of blocks to try on a device of ``units`` multiprocessors."""
    waves = WAVES if max(workload.used_kernel) <= MAX_SIDE else UNEVEN_WAVES
    return [n * units for n in waves]
