"""How the weight's gradient is shared out: parts, whose sums a second launch adds up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload

PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # about
STRIPS = (1, 2, 3, 4, 8)  # of a plane


def serves(workload: DepthwiseConv2dWorkload) -> bool:
    """Whether it is a weight's gradient, channels last, without a multiplier."""
    return (
        workload.direction == "backward_weight"
        and workload.layout == "NHWC"
        and workload.multiplier == 1
    )


@dataclass(frozen=True)
class Work:
    """As ``schedules/weight_places.cu`` shares it out. An item is what a block sums together: all
    columns of a strip of ``images``, or if that is 0 any ``points`` places of ``columns``."""

    workload: DepthwiseConv2dWorkload
    columns: int
    rows: int
    tap_rows: int
    tap_columns: int
    channels: int  # of a block
    points: int
    images: int
    wanted: int  # parts

    @property
    def groups(self) -> int:
        return ceil_div(self.workload.out_width, self.columns)

    @property
    def strips(self) -> int:
        return ceil_div(self.workload.out_height, self.rows)

    @property
    def items(self) -> int:
        if self.images:
            return ceil_div(self.workload.B, self.images) * self.strips
        return ceil_div(self.workload.B * self.strips * self.groups, self.points)

    @property
    def walks(self) -> int:
        """Items of a block, one after the other."""
        return ceil_div(self.items, self.wanted)

    @property
    def parts(self) -> int:
        return ceil_div(self.items, self.walks)

    @property
    def tiles(self) -> int:
        down, across = self.workload.near
        return ceil_div(down, self.tap_rows) * ceil_div(across, self.tap_columns)

    @property
    def blocks(self) -> int:
        return self.parts * self.tiles * (self.workload.C // self.channels)

    @property
    def sums(self) -> int:
        """Of a channel."""
        down, across = self.workload.near
        return down * across + self.workload.bias

    @property
    def workspace(self) -> int:
        return self.parts * self.sums * self.workload.C

    @property
    def last_blocks(self) -> int:
        """Of the second launch."""
        taps = self.workload.kernel[0] * self.workload.kernel[1]
        return ceil_div(self.workload.C, 32) * (taps + self.workload.bias)

    def useful(self, units: int) -> tuple[int, ...]:
        """How many parts may be wanted on a device of so many units."""
        return _useful(self.items, self.tiles * (self.workload.C // self.channels), units)

    @property
    def ring(self) -> int:
        """Rows of the gradient that an input row meets."""
        return ring(self.workload, self.tap_rows)


@cache
def _useful(items: int, across: int, units: int) -> tuple[int, ...]:
    """For one, two or four blocks of each unit, of which so many share a part, or as many as there
    are items."""
    asked = (min(items, ceil_div(n * units, across)) for n in (1, 2, 4))
    return tuple(sorted({next((n for n in PARTS if n >= each), PARTS[-1]) for each in asked}))


def ring(workload: DepthwiseConv2dWorkload, tap_rows: int) -> int:
    return ((tap_rows - 1) * workload.dilation + workload.stride) // workload.stride


def strips(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Rows of strips that share a plane out evenly."""
    height = workload.out_height
    return sorted({ceil_div(height, n) for n in STRIPS if n <= height})
