"""Search space of the tensor-core form for planes on CUDA."""

from __future__ import annotations

from functools import cached_property

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.halves import ARITHMETICS, arithmetics
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MIN_KERNEL = 5
MAX_TILES = 8
STEPS_PER_ERROR = {"short": 4.8e6, "long": 3e7}
"""Steps that tensor cores may add up in one sum, for each unit of error.

Each step truncates the sum. If its terms are positive, that costs 2.3e-8 of it.
"""


class CudaToeplitz(Template[DepthwiseConv2dWorkload]):
    """A row of taps is a product of input rows and a Toeplitz matrix (``schedules/toeplitz.cu``).

    A fragment of 16 rows holds a group: ``fragment_rows`` output rows of each of 16 /
    ``fragment_rows`` images. Knobs:

    - ``fragment_rows``: see above.
    - ``warps``: warps of a block.
    - ``groups_per_warp``: groups that a warp sums.
    - ``column_tiles``: width of a group, in tiles of eight columns.
    - ``image_groups``: groups of a block that cover the same rows of different images.
    - ``arithmetic``: the halves into which float32 is split, and whether low halves are multiplied
      too.
    - ``steps``: "halved": a step with eight columns of zeros becomes half a step.
    - ``sums``: "short": the tensor cores add up only some rows of taps in one sum; "long": all.
    - ``taps``: "loaded": each row of taps is loaded for all groups of a warp; "sliding": a row of
      taps slides through registers from one group, a row of 16 images, to the next.
    """

    name = "toeplitz"
    kind = "cuda"
    version = 4
    arithmetic = TENSOR_CORES

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept basic workloads with kernels that fill enough of a Toeplitz matrix.

        The device needs compute capability 7.5, because earlier tensor cores do not read 8x8 tiles,
        and shared memory for the taps and the inputs that they meet.
        """
        return (
            limits.kind == "cuda"
            and workload.is_basic
            and limits.capability >= 75
            and bool(_arithmetics(workload, limits))
            and workload.kernel[0] >= MIN_KERNEL
            and Layout(workload, _smallest(workload, limits)).shared_bytes <= limits.shared_memory
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("fragment_rows", [1, 2, 4, 8, 16])
        space.knob("warps", [1, 2, 4, 7, 8, 14, 16])
        space.knob("groups_per_warp", [1, 2, 3, 4, 6, 7, 8])
        space.knob("image_groups", [1, 2, 4])
        space.knob("column_tiles", _column_tiles(workload))
        space.knob("arithmetic", _arithmetics(workload, limits))
        space.knob("steps", _steps(limits))
        space.knob("sums", ["short", "long"])
        space.knob("taps", ["loaded", "sliding"])
        space.constraint(
            "image_groups divides the product of warps and groups_per_warp",
            lambda c: c["warps"] * c["groups_per_warp"] % c["image_groups"] == 0,
            reads=("warps", "groups_per_warp", "image_groups"),
        )
        space.constraint(
            'taps "sliding" only with several groups_per_warp, and if fragment_rows, image_groups '
            "and the stride are 1",
            lambda c: c["taps"] == "loaded" or _neighbours(workload, c),
            reads=("fragment_rows", "groups_per_warp", "image_groups", "taps"),
        )
        space.constraint(
            "a block covers less than twice the images, or as few as it can",
            lambda c: (
                16 // c["fragment_rows"] * c["image_groups"] < 2 * workload.B
                or (c["fragment_rows"], c["image_groups"]) == (16, 1)
            ),
            reads=("fragment_rows", "image_groups"),
        )
        space.constraint(
            "a block covers less than twice the rows, or as few as it can",
            lambda c: (
                c["fragment_rows"] * c["warps"] * c["groups_per_warp"] // c["image_groups"]
                < 2 * workload.out_height
                or c["warps"] * c["groups_per_warp"] == c["image_groups"]
            ),
            reads=("fragment_rows", "warps", "groups_per_warp", "image_groups"),
        )
        space.constraint(
            'steps "whole" only if there are half steps',
            lambda c: c["steps"] == "halved" or Layout(workload, c).has_half_steps,
        )
        space.constraint(
            'sums "long" only if exact enough, and "short" only if a short sum has fewer than all '
            "rows of taps",
            lambda c: c["sums"] in _sums(workload, c, limits),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: Layout(workload, c).shared_bytes <= limits.shared_memory,
        )
        space.constraint(
            "the registers of a block fit",
            lambda c: Layout(workload, c).registers <= _registers_limit(limits, c["warps"]),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return up to 32 columns and 64 rows of one image.

        The configuration takes at most half of the shared memory if possible.
        """
        config = _smallest(workload, limits)
        tiles = max(tiles for tiles in _column_tiles(workload) if tiles <= 4)
        for warps in (1, 2, 4):
            larger = _summed(workload, config | {"warps": warps, "column_tiles": tiles})
            if (
                16 * (warps - 1) < workload.out_height
                and 2 * Layout(workload, larger).shared_bytes <= limits.shared_memory
            ):
                config = larger
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        layout = Layout(workload, config)
        threads, groups = 32 * config["warps"], config["warps"] * config["groups_per_warp"]
        resident = resident_blocks(
            threads, layout.registers, limits, limits.unit_shared_memory // layout.shared_bytes
        )
        steps = layout.products * layout.steps_of_tap_row * config["groups_per_warp"]
        steps *= layout.tap_rows
        fragments, taps = 2 * layout.halves * layout.chunks, layout.halves * layout.distances
        loads = fragments + taps / config["groups_per_warp"]
        if config["taps"] == "sliding":
            loads = (fragments + taps) / config["groups_per_warp"]
        return {
            **occupancy(layout.blocks, threads, resident, limits),
            "shared_bytes": layout.shared_bytes,
            "registers": layout.registers,
            "steps": layout.blocks * config["warps"] * steps,
            "steps_per_warp": steps,
            "loads_per_step": loads / (layout.products * layout.steps_of_tap_row),
            "padded_share": layout.blocks
            * groups
            * 128
            * config["column_tiles"]
            / (workload.B * workload.C * workload.out_height * workload.out_width),
            "staged_share": layout.blocks
            * (layout.images * layout.rows * 8 * layout.chunks + workload.taps)
            / (workload.bytes / BYTES_PER_ELEMENT[workload.dtype]),
        }


class Layout:
    """Tiles, steps and shared memory of a configuration, as ``toeplitz.cu`` lays them out."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: Config) -> None:
        self._workload, self._config = workload, config
        s, middle = workload.stride, workload.kernel[0] // 2
        tiles: int = config["column_tiles"]
        fragment: int = config["fragment_rows"]
        kind, self.products = ARITHMETICS[config["arithmetic"]]
        self.halves = 2 if self.products == 3 else 1
        self.images: int = 16 // fragment * config["image_groups"]
        groups: int = config["warps"] * config["groups_per_warp"]
        strip: int = fragment * groups // config["image_groups"]
        self._warp_rows: int = fragment * ceil_div(
            config["groups_per_warp"], config["image_groups"]
        )
        self._down = ceil_div(workload.out_height, strip)
        self._across = ceil_div(workload.out_width, 8 * tiles)

        nearest, furthest = -((middle + 7) // 8), (middle + 7 * s) // 8
        self._origin = 0 if self._across == 1 else nearest
        self._used = ceil_div(workload.W, 8)
        if self._across > 1:
            self._used = s * (tiles - 1) + furthest - nearest + 1
        self.chunks = self._used if config["steps"] == "halved" else ceil_div(self._used, 2) * 2
        self._first = max(nearest, self._origin - s * (tiles - 1))
        self.distances = min(furthest, self._origin + self._used - 1) - self._first + 1

        self.reach = min(middle, workload.H - 1)
        self.rows = min(s * (strip - 1) + 2 * self.reach + 1, workload.H)
        scaled = workload.dtype == "float32" and kind != "bf16"
        quads = self.chunks * (2 if scaled or self.halves == 2 else 1)  # of words
        self._pitch = 4 * (quads | 1)
        image = ceil_div(self.rows, s) * s * self._pitch
        if fragment < 8:
            skew = 4 * fragment
            image = ceil_div(image - skew, 32) * 32 + skew
        self._input_words: int = self.images * image + self._pitch + 28
        words = 4 * (self.distances - 1) + (6 + 7 * s) // 2 + 1
        if words % 32 < 8:
            words += 8 - words % 32
        elif words % 32 > 24:
            words += 40 - words % 32
        self._tap_words: int = (2 * self.reach + 1) * self.halves * (2 if s == 1 else 1) * words

    @property
    def blocks(self) -> int:
        batches = ceil_div(self._workload.B, self.images)
        return self._across * self._down * self._workload.C * batches

    @property
    def shared_words(self) -> int:
        return self._input_words + self._tap_words + 2

    @property
    def shared_bytes(self) -> int:
        return 4 * self.shared_words

    @cached_property
    def tap_rows(self) -> float:
        """Return the average number of tap rows of a warp, which are those that meet the plane."""
        s, last = self._workload.stride, self._workload.out_height - 1
        starts = range(0, last + 1, self._warp_rows)
        some = starts[:: ceil_div(len(starts), 64)]
        met = [
            min(self.reach, self._workload.H - 1 - s * start)
            + min(self.reach, s * min(start + self._warp_rows - 1, last))
            + 1
            for start in some
        ]
        return sum(met) / len(met)

    @cached_property
    def steps_of_tap_row(self) -> float:
        """Return the steps of a group's tiles for a row of taps. Half a step counts as 0.5."""
        half = 1 if self._config["steps"] == "halved" else 2
        return sum(half if chunks == 1 else 2 for chunks in self._chunks_of_steps) / 2

    @property
    def has_half_steps(self) -> bool:
        return 1 in self._chunks_of_steps

    @property
    def _chunks_of_steps(self) -> list[int]:
        """Return for each step of all tiles how many of its chunks are not all zero, 1 or 2.

        Steps without such a chunk are left out.
        """
        found = []
        for tile in range(self._config["column_tiles"]):
            start = self._origin - self._workload.stride * tile - self._first
            full = [0 <= start + chunk < self.distances for chunk in range(self._used)]
            found += [sum(full[chunk : chunk + 2]) for chunk in range(0, self._used, 2)]
        return [chunks for chunks in found if chunks > 0]

    @property
    def sums(self) -> list[str]:
        """Return the values of ``sums`` to choose from, the shortest first."""
        if self._tap_rows("short") > 2 * self.reach:
            return ["long"]
        return ["short", "long"] if self._tap_rows("long") > 2 * self.reach else ["short"]

    @property
    def tap_rows_per_sum(self) -> int:
        """Return how many rows of taps are added up in one sum.

        The number is that of all rows, or low enough to keep truncation well below the error.
        """
        return self._tap_rows("short") if self._config["sums"] == "short" else 2 * self.reach + 1

    def _tap_rows(self, sums: str) -> int:
        error = self._workload.error_of_sums(_taps_of_middle(self._workload))
        steps = int(STEPS_PER_ERROR[sums] * error)
        return max(1, steps // (self.products * ceil_div(self.distances, 2)))

    @property
    def registers(self) -> int:
        """Return the estimated registers: sums and totals, fragments, taps, addresses."""
        groups, tiles = self._config["groups_per_warp"], self._config["column_tiles"]
        sums = 2 if self._config["sums"] == "short" else 1
        fragments, taps = 4 * self.halves * min(groups, 2), self.halves * self.distances
        if self._config["taps"] == "sliding":
            fragments, taps = 4 * self.halves, taps * groups
        return int(4 * sums * groups * tiles + fragments + 2 * groups + taps + 24)


def _column_tiles(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the numbers of tiles that divide a row evenly."""
    whole = ceil_div(workload.out_width, 8)
    return [
        tiles
        for tiles in range(1, min(whole, MAX_TILES) + 1)
        if ceil_div(whole, ceil_div(whole, tiles)) == tiles
    ]


def _smallest(workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
    """Return the configuration that needs the least shared memory."""
    return _summed(
        workload,
        {
            "template": CudaToeplitz.name,
            "fragment_rows": 16,
            "warps": 1,
            "groups_per_warp": 1,
            "image_groups": 1,
            "column_tiles": 1,
            "arithmetic": _arithmetics(workload, limits)[0],
            "steps": "halved",
            "taps": "loaded",
        },
    )


def _summed(workload: DepthwiseConv2dWorkload, config: Config) -> Config:
    """Return the configuration with the shortest sums that it can have."""
    return config | {"sums": Layout(workload, config).sums[0]}


def _arithmetics(workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> list[str]:
    """Return the values of ``arithmetic`` that keep ``max_error``."""
    return arithmetics(workload, _taps_of_middle(workload), limits)


def _taps_of_middle(workload: DepthwiseConv2dWorkload) -> int:
    """Return the taps that an output at the middle of the plane meets."""
    return min(workload.kernel[0], workload.H) * min(workload.kernel[0], workload.W)


def _neighbours(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether the groups of a warp are neighbouring rows.

    The next input row then meets the same taps one row on.
    """
    ones = (config["fragment_rows"], config["image_groups"], workload.stride)
    return config["groups_per_warp"] > 1 and ones == (1, 1, 1)


def _steps(limits: DeviceLimits) -> list[str]:
    """Return the values of ``steps`` to choose from.

    Before compute capability 8.0, steps are half as long, so no step needs zeros.
    """
    return ["halved", "whole"] if limits.capability >= 80 else ["halved"]


def _sums(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> list[str]:
    """Return the values of ``sums`` that are exact enough on this device.

    Before compute capability 8.0, a step is two additions, so only the shortest sums are.
    """
    sums = Layout(workload, config).sums
    return sums if limits.capability >= 80 else sums[:1]


def _registers_limit(limits: DeviceLimits, warps: int) -> int:
    """Return the most registers that a thread may be estimated to need.

    A unit's registers and warps are divided evenly among its four quarters.
    """
    return min(208, limits.registers_per_unit // (128 * ceil_div(warps, 4)))
