"""How the weight's gradient is shared out: parts, whose sums a second launch adds up."""

from __future__ import annotations

from dataclasses import dataclass

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload

WAVES = (1, 2, 3, 4)  # blocks of a unit
UNEVEN_WAVES = (2, 4, 8, 16, 32)  # if tiles of taps meet more or less of the planes
MAX_SIDE = 9  # of a tile, in taps
SLICES = 16  # of the parts, at most: warps of a block of the second launch


def serves(workload: DepthwiseConv2dWorkload) -> bool:
    """Whether it is a weight's gradient, channels last."""
    return workload.direction == "backward_weight" and workload.layout == "NHWC"


@dataclass(frozen=True)
class Work:
    """As ``schedules/weight_places.cu`` shares it out: the rows of all images, one after the other,
    in ranges. A block sums all columns of a range together, of ``images`` that go down side by
    side, or if that is 0 any ``points`` places of ``columns``. There are as many ranges as about
    so many ``blocks_wanted`` take, but none has less than a row."""

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
        return ceil_div(self.workload.out_width, self.columns)

    @property
    def rows(self) -> int:
        return ceil_div(self.workload.B, max(1, self.images)) * self.workload.out_height

    @property
    def ranges(self) -> int:
        wanted = self.blocks_wanted // self.across
        if not self.images:
            wanted = wanted * self.points // self.groups
        return max(1, min(wanted, self.rows))

    @property
    def parts(self) -> int:
        return self.ranges if self.images else ceil_div(self.ranges * self.groups, self.points)

    @property
    def steps(self) -> float:
        """Of a range, about: its rows, and in each image those that take the ring to its end."""
        rows = self.rows / self.ranges
        return rows + (rows / self.workload.out_height + 1) * (self.ring - 1)

    @property
    def tiles(self) -> int:
        down, across = self.workload.near
        return ceil_div(down, self.tap_rows) * ceil_div(across, self.tap_columns)

    @property
    def across(self) -> int:
        """Blocks of a part."""
        return self.tiles * (self.workload.out_channels // self.channels)

    @property
    def blocks(self) -> int:
        return self.parts * self.across

    @property
    def sums(self) -> int:
        """Of a channel."""
        down, across = self.workload.near
        return down * across + self.workload.bias

    @property
    def workspace(self) -> int:
        return self.parts * self.sums * self.workload.out_channels

    @property
    def last_blocks(self) -> int:
        """Of the second launch."""
        taps = self.workload.kernel[0] * self.workload.kernel[1]
        return ceil_div(self.workload.out_channels, 32) * (taps + self.workload.bias)

    @property
    def slices(self) -> int:
        """Of the parts, in the second launch: a warp adds up one of them."""
        return min(SLICES, self.parts)

    @property
    def ring(self) -> int:
        """Rows of the gradient that an input row meets."""
        return ring(self.workload, self.tap_rows)


def ring(workload: DepthwiseConv2dWorkload, tap_rows: int) -> int:
    return ((tap_rows - 1) * workload.dilation + workload.stride) // workload.stride


def blocks(workload: DepthwiseConv2dWorkload, units: int) -> list[int]:
    """How many there may be, about, on a device of so many units."""
    waves = WAVES if max(workload.near) <= MAX_SIDE else UNEVEN_WAVES
    return [n * units for n in waves]
