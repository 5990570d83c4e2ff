"""Search space of strips of rows on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.launches.next_launch import begins_next, next_launches
from templates.kernels.occupancy import MAX_RESIDENT, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 81
MAX_TAPS_WIDE = 15
MAX_UNROLLED = 3136
MAX_AREA = 1156  # the most elements of a plane that is staged whole
MAX_REGISTERS = 232  # the most registers that a thread may be estimated to need
SMALL = 4  # the most outputs for each of the device's threads, if "registers" is a knob


class CudaRows(Template[DepthwiseConv2dWorkload]):
    """A thread sums a strip of outputs, sliding down the input rows (``schedules/rows.cu``).

    The plane's weights are in its registers. Knobs:

    - ``rows``, ``columns``: size of a strip, which has whole rows if it reads shared memory.
    - ``reads``: whether input rows come from global or from shared memory.
    - ``ahead``: how many rows before its use a row is read from global memory; 0 leaves it to the
      compiler.
    - ``threads``: threads of a block that reads global memory.
    - ``next_launch``: whether the next launch may begin ``early``, once such a block has asked for
      its weights, or ``late``, when all blocks have ended.
    - ``registers``: "enough" gives a thread that reads global memory all registers that its code
      asks for.
    - ``planes``, ``images``: planes that a block copies, an equal number from each of its images.
    - ``staging``: how planes are copied: through registers, by asynchronous copies of vectors, or
      in bulk by the copy engine, which also takes the results.
    - ``strips``: "alike": strips share their code; "each": each strip has its own code, in which
      the compiler knows which elements are padding.
    - ``stores``: how results are cached.
    """

    name = "rows"
    kind = "cuda"
    version = 6
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept basic workloads on CUDA whose weights fit into a thread's registers."""
        height, width = workload.used_kernel
        fits = height * width <= MAX_TAPS and width <= MAX_TAPS_WIDE
        return limits.kind == "cuda" and fits and workload.is_basic

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height, width = workload.out_height, workload.out_width
        staged = _planes(workload, limits)
        shared, total = {"reads": "shared"}, {"reads": "global"}
        space = ConfigSpace(self.name, self.version)
        space.knob("reads", ["global", "shared"] if staged else ["global"])
        rows = [r for r in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 28) if r <= height]
        space.knob("rows", rows)
        space.knob("columns", [v for v in (1, 2, 4, 8) if v <= width], when=total)
        space.knob("ahead", [0, 1, 2, 4, 6], when=total)
        space.knob("threads", [32, 64, 128, 256, 512], when=total)
        space.knob("next_launch", next_launches(limits), when=total)
        if workload.output.elements <= SMALL * MAX_RESIDENT * limits.units:
            space.knob("registers", ["few", "enough"], when=total)
        if staged:
            space.knob("planes", staged, when=shared)
            images = [i for i in (1, 2, 4, 8, 16) if workload.B % i == 0]
            space.knob("images", images, when=shared)
            space.knob("staging", _staging(workload, limits), when=shared)
            space.knob("strips", ["alike", "each"], when=shared)
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "the strips together are less than a quarter higher than the plane",
            lambda c: c["rows"] == 1 or 4 * _strips(workload, c) * c["rows"] < 5 * height,
            reads=("rows",),
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled",
            lambda c: _unrolled(workload, c) <= MAX_UNROLLED,
        )
        space.constraint(
            'strips "each" only for several strips, each of whole warps, with at most '
            f"{MAX_UNROLLED} multiply-adds together",
            lambda c: (
                c["reads"] == "global" or c["strips"] == "alike" or _may_have_own_code(workload, c)
            ),
        )
        space.constraint(
            "ahead is less than a strip's input rows",
            lambda c: c["reads"] == "shared" or c["ahead"] < _rows(workload, c),
        )
        space.constraint(
            "a block has equally many channels of each image, and they divide C",
            lambda c: c["reads"] == "global" or _has_equal_images(workload, c),
        )
        space.constraint(
            "strips in shared memory begin at a vector's boundary",
            lambda c: c["reads"] == "global" or _strips_aligned(workload, c),
        )
        space.constraint(
            f"32 to {min(512, limits.threads_per_block)} threads a block",
            lambda c: 32 <= threads(workload, c) <= min(512, limits.threads_per_block),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory,
        )
        space.constraint(
            "the registers of a block fit",
            lambda c: (
                _registers(workload, c)
                <= min(MAX_REGISTERS, limits.registers_per_unit // threads(workload, c))
            ),
        )
        space.constraint(
            'registers "enough" only if the device can hold all blocks at once',
            lambda c: c.get("registers") != "enough" or _all_at_once(workload, c, limits),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        space = self.space(workload, limits)
        config: Config = {
            "template": self.name,
            "reads": "global",
            "rows": 1,
            "columns": 1,
            "ahead": 0,
            "threads": 128,
            "next_launch": next_launches(limits)[0],
            "stores": "cached",
        }
        if "registers" in {knob.name for knob in space.knobs}:
            config["registers"] = "few"
        for change in [{"columns": 2}, {"columns": 4}, {"rows": 2}, {"rows": 4}, {"ahead": 1}]:
            changed = config | change
            even = workload.out_width % changed["columns"] == 0
            if even and _registers(workload, changed) <= 128 and changed in space:
                config = changed
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        staged = config["reads"] == "shared"
        columns = _columns(workload, config)
        across, strips = ceil_div(workload.out_width, columns), _strips(workload, config)
        count, block = blocks(workload, config), threads(workload, config)
        shared, registers = 4 * shared_words(workload, config), _registers(workload, config)
        resident = resident_blocks(block, registers, limits, limits.unit_shared_memory // shared)
        busy = min(resident, ceil_div(count, limits.units)) * block
        size = BYTES_PER_ELEMENT[workload.dtype]
        rows = _rows(workload, config)
        fetched = columns * workload.stride * (rows if staged else config["ahead"] + 1)
        words = workload.W if staged else row_words(workload, columns)
        return {
            "blocks": count,
            "blocks_per_unit": count / limits.units,
            "waves": ceil_div(count, resident * limits.units),
            "tail": count / limits.units / ceil_div(count, limits.units),
            "threads": block,
            "resident_threads": busy,
            "shared_bytes": shared,
            "registers": registers,
            "few_registers": int(config.get("registers") != "enough"),
            "staged": int(staged),
            "next_begins_early": int(begins_next(config)),
            "streaming": int(config["stores"] == "streaming"),
            "outputs_per_thread": columns * config["rows"],
            "unrolled": _unrolled(workload, config),
            "bytes_in_flight": size * fetched * busy,
            "words_per_fma": rows * words / _unrolled(workload, config),
            "weights_per_fma": _taps(workload) / _unrolled(workload, config),
            "images": config.get("images", 1),
            "own_code": int(config.get("strips") == "each"),
            "async": int(config.get("staging") == "async"),
            "bulk": int(config.get("staging") == "bulk"),
            "rows_read": rows / (config["rows"] * workload.stride),
            "row_bytes": size * columns * across * (strips * config["rows"] if staged else 1),
            "vector": 4 if staged else _vector(workload.W, columns * workload.stride, size),
            "padded_share": across
            * columns
            * strips
            * config["rows"]
            / (workload.out_width * workload.out_height),
        }


def threads(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of threads of a block."""
    if config["reads"] == "shared":
        return int(config["planes"] * _strips(workload, config))
    return int(config["threads"])


def blocks(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of blocks in the grid."""
    planes = workload.B * workload.C
    if config["reads"] == "shared":
        return ceil_div(planes, config["planes"])
    strips = planes * _strips(workload, config) * ceil_div(workload.out_width, config["columns"])
    return ceil_div(strips, config["threads"])


def shared_words(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the 32-bit words of shared memory, as ``rows.cu`` lays them out; at least 1."""
    if config["reads"] == "global":
        return 1
    areas = (workload.H * workload.W, workload.out_height * workload.out_width)
    pitch = max(area + 4 if area % 8 == 0 else area for area in areas)
    planes = config["planes"]
    weights = planes // config["images"] * _taps(workload)
    if config["staging"] == "bulk":
        weights = (weights + 1) // 2 * 2 + 2
    return int(ceil_div(planes * pitch, 4) * 4 + weights)


def row_words(workload: DepthwiseConv2dWorkload, columns: int) -> int:
    """Return the registers of one fetched input row, as ``rows.cu`` cuts it into vectors."""
    size, left = BYTES_PER_ELEMENT[workload.dtype], workload.used_kernel[1] // 2
    vector = _vector(workload.W, columns * workload.stride, size)
    sides = (left, max(0, left - workload.stride + 1))
    whole = columns * workload.stride + sum(side // vector * vector for side in sides)
    parts = (1 << (side % vector - 1).bit_length() for side in sides if side % vector)
    words = ceil_div(vector * size, 4) * (whole // vector)
    return words + sum(ceil_div(part * size, 4) for part in parts)


def _vector(width: int, columns: int, size: int) -> int:
    """Return the longest vector that divides a plane's rows and a thread's columns."""
    vector = 16 // size
    while width % vector or columns % vector:
        vector //= 2
    return vector


def _planes(workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> list[int]:
    """Return how many planes a block may stage.

    No planes are staged if they are large, if rows are long, or if there is a residual, because it
    would have to be staged, too.
    """
    if workload.H * workload.W > MAX_AREA or workload.W > 32 or workload.residual:
        return []
    return [
        planes
        for planes in (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
        if planes < 2 * workload.B * workload.C or planes == 4
    ]


def _staging(workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> list[str]:
    """Return the values of ``staging`` on this device.

    Elements that must be converted go through registers.
    """
    since = {"registers": 0, "async": 80, "bulk": 90}
    return [
        staging
        for staging, first in since.items()
        if first == 0 or (limits.capability >= first and workload.dtype == "float32")
    ]


def _strips(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    return ceil_div(workload.out_height, int(config["rows"]))


def _has_equal_images(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether a block has equally many channels of each image, with none left over."""
    planes, images = config["planes"], config["images"]
    return bool(images == 1 or (planes % images == 0 and workload.C % (planes // images) == 0))


def _may_have_own_code(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether each strip can have its own code."""
    strips = _strips(workload, config)
    return bool(
        strips > 1
        and config["planes"] % 32 == 0
        and strips * _unrolled(workload, config) <= MAX_UNROLLED
    )


def _strips_aligned(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    """Return whether strips in shared memory begin at the boundary of a vector."""
    planes = (
        (workload.H, workload.W, config["rows"] * workload.stride),
        (workload.out_height, workload.out_width, config["rows"]),
    )
    return _strips(workload, config) == 1 or all(
        rows * width % min(4, height * width & -(height * width)) == 0
        for height, width, rows in planes
    )


def _columns(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the columns of a strip."""
    return workload.out_width if config["reads"] == "shared" else int(config["columns"])


def _rows(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the input rows of a strip."""
    return int((config["rows"] - 1) * workload.stride + workload.used_kernel[0])


def _taps(workload: DepthwiseConv2dWorkload) -> int:
    height, width = workload.used_kernel
    return height * width


def _unrolled(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    return int(config["rows"] * _columns(workload, config) * _taps(workload))


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: weights, sums, input rows held and fetched, addresses."""
    columns, rows = _columns(workload, config), config["rows"]
    if config["reads"] == "shared":
        return int(_taps(workload) + rows * columns + 2 * workload.W + 20)
    alive = min(rows, ceil_div(workload.used_kernel[0], workload.stride))
    fetched = (config["ahead"] + 1) * row_words(workload, columns)
    unpacked = (
        0 if workload.dtype == "float32" else columns * workload.stride + workload.used_kernel[1]
    )
    return int(_taps(workload) + alive * columns + fetched + unpacked + 20)


def _all_at_once(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    """Return whether the device can hold all blocks at once."""
    block = _registers(workload, config) * threads(workload, config)
    return blocks(workload, config) <= limits.registers_per_unit // block * limits.units
