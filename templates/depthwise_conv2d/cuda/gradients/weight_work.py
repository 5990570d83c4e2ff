"""How the weight's gradient is shared out: parts, whose sums a second launch adds up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.halves import capability
from templates.limits import DeviceLimits

PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # about
STRIPS = (1, 2, 3, 4, 8)  # of a plane
COPIED_STEPS = (1, 2, 4)
MAX_HELD = 16  # steps
CLUSTERS = (1, 2, 4, 8)


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
    cluster: int  # blocks that add up their parts before they store them

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
    def left(self) -> int:
        """Parts that clusters leave."""
        return ceil_div(self.parts, self.cluster)

    @property
    def whole(self) -> bool:
        """Whether one launch is enough."""
        return self.left == self.tiles == 1

    @property
    def is_clustered(self) -> bool:
        """Whether clusters leave nothing to a second launch, and most of their blocks have parts.
        Clusters that leave parts were slower than none when they were measured."""
        return self.whole and 5 * self.parts > 4 * self.cluster

    @property
    def kept(self) -> int:
        """Sums in shared memory, that a block shows its cluster or stores at once."""
        if not self.whole and self.cluster == 1:
            return 0
        return (self.tap_rows * self.tap_columns + self.workload.bias) * self.channels

    @property
    def blocks(self) -> int:
        return self.left * self.cluster * self.tiles * (self.workload.C // self.channels)

    @property
    def sums(self) -> int:
        """Of a channel."""
        down, across = self.workload.near
        return down * across + self.workload.bias

    @property
    def workspace(self) -> int:
        """Floats."""
        return 0 if self.whole else self.left * self.sums * self.workload.C

    @property
    def last_blocks(self) -> int:
        """Of the second launch, in whole clusters."""
        taps = self.workload.kernel[0] * self.workload.kernel[1]
        wanted = ceil_div(self.workload.C, 32) * (taps + self.workload.bias)
        return ceil_div(wanted, self.cluster) * self.cluster

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


def clusters(limits: DeviceLimits) -> list[int]:
    """How many blocks may be in one: CUDA has them from compute capability 9.0 on."""
    return list(CLUSTERS) if capability(limits) >= 90 else [1]


def ring(workload: DepthwiseConv2dWorkload, tap_rows: int) -> int:
    return ((tap_rows - 1) * workload.dilation + workload.stride) // workload.stride


def stages(workload: DepthwiseConv2dWorkload, tap_rows: int) -> list[int]:
    """How many may be held."""
    turn = ring(workload, tap_rows)
    few = range(2, max(4, turn) + 1)
    return [n for n in few if any(_turns(turn, n * steps) for steps in COPIED_STEPS)]


def holds(workload: DepthwiseConv2dWorkload, config: dict[str, Any], tap_rows: int) -> bool:
    """Whether the steps in shared memory are whole turns of the ring, and no more than a strip has
    are on their way, or as few as can be."""
    turn, copied = ring(workload, tap_rows), config["copied_steps"]
    ahead = (config["stages"] - 1) * copied
    return _turns(turn, ahead + copied) and ahead < max(turn + 1, config["rows"] + turn)


def _turns(turn: int, held: int) -> bool:
    return held % turn == 0 and held <= MAX_HELD


def strips(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Rows of strips that share a plane out evenly."""
    height = workload.out_height
    return sorted({ceil_div(height, n) for n in STRIPS if n <= height})
