"""Search spaces of the weight's gradient, channels last and first, in multiply-adds on CUDA."""

from __future__ import annotations

from typing import ClassVar

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div, excess
from templates.depthwise_conv2d.cuda.gradients.weight_work import (
    MAX_SIDE,
    Work,
    blocks,
    ring,
)
from templates.depthwise_conv2d.cuda.lanes import (
    SECTOR_BYTES,
    are_filled,
    are_wide_enough,
    divisors,
    usual_threads,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy
from templates.kernels.vectors import VECTOR_BYTES, vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 81  # the most of a tile
MAX_UNROLLED = 3600  # the most multiply-adds in the code
MAX_REGISTERS = 232  # the most that a thread may be estimated to need
DEFAULT_REGISTERS = 160
BESIDE = 38  # registers for addresses and the like
WORD_BYTES = 4  # of the smallest asynchronous copy
THREADS = (64, 96, 128, 192, 256, 384)
LANES = (4, 8, 16, 24, 32, 64, 128)  # limits of a block's lanes


class CudaWeightChannels(Template[DepthwiseConv2dWorkload]):
    """A thread sums a tile of taps of neighbouring channels over rows of outputs.

    The program is ``schedules/weight_places.cu``. Knobs:

    - ``tap_rows``, ``tap_columns``: size of a tile of taps.
    - ``channels``, ``columns``: channels of a thread, and outputs of its rows.
    - ``lanes``: vectors of ``channels`` channels that a block has.
    - ``inputs``: "registers": they are read straight into registers; "private": each thread copies
      its own inputs to shared memory; "shared": a block has all columns of ``images`` images and
      copies them to shared memory together.
    - ``ahead``: 1 reads inputs straight into registers one row before their use.
    - ``stages``, ``copied_steps``: private copies are ``stages`` - 1 rows ahead. Shared copies have
      ``copied_steps`` rows and are ``stages`` - 1 times as many rows ahead.
    - ``threads``: threads of a block that does not share its inputs.
    - ``blocks``: approximate number of blocks. A second launch adds up their sums.
    - ``resident``: the least number of blocks for which a unit has room.
    """

    name = "weight_channels"
    kind = "cuda"
    version = 3
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True
    layout: ClassVar[str] = "NHWC"

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of a weight in this layout on CUDA."""
        wanted = (workload.direction, workload.layout) == ("backward_weight", self.layout)
        return super().applies(workload, limits) and wanted

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        size = BYTES_PER_ELEMENT[workload.dtype]
        whole = vector_lengths(workload.dtype, workload.out_channels)
        inputs = _inputs(workload)
        copied = [each for each in inputs if each != "registers"]
        columns = [1, 2, 3, 4, 5, 7, 8, 14]
        space = ConfigSpace(self.name, self.version)
        space.knob("inputs", inputs)
        space.knob("channels", [1] if _has_one_channel_per_thread(workload) else whole)
        space.knob("tap_rows", _sides(workload, workload.used_kernel[0]))
        space.knob("tap_columns", _sides(workload, workload.used_kernel[1]))
        space.knob("columns", [v for v in columns if v <= workload.out_width])
        space.knob("lanes", _lanes(workload))
        last = "copied_steps" if "shared" in inputs else "stages" if copied else "threads"
        unstaged = [each for each in inputs if each != "shared"]
        space.knob("threads", list(THREADS), when={"inputs": unstaged})
        space.knob("ahead", [0, 1], when={"inputs": "registers"})
        if "shared" in inputs:
            images = [n for n in (1, 2, 4, 8) if n <= workload.B]
            space.knob("images", images, when={"inputs": "shared"})
        if copied:
            space.knob("stages", [2, 3, 4, 6], when={"inputs": copied})
        if "shared" in inputs:
            space.knob("copied_steps", [1, 2, 4], when={"inputs": "shared"})
        space.knob("blocks", blocks(workload, limits.units))
        space.knob("resident", [1, 2, 3])
        space.constraint(
            f"a tile has at most {MAX_TAPS} taps",
            lambda c: c["tap_rows"] * c["tap_columns"] <= MAX_TAPS,
            reads=("tap_columns",),
        )
        space.constraint(
            f'with inputs "private", the channels of a thread have at least {WORD_BYTES} bytes',
            lambda c: c["inputs"] != "private" or c["channels"] * size >= WORD_BYTES,
            reads=("channels",),
        )
        if "shared" in inputs:
            space.constraint(
                'with inputs "shared", a tile has all taps',
                lambda c: (
                    c["inputs"] != "shared"
                    or (c["tap_rows"], c["tap_columns"]) == workload.used_kernel
                ),
                reads=("tap_columns",),
            )
        space.constraint(
            "the groups of columns together are less than a quarter wider than the plane",
            lambda c: excess(workload.out_width, c["columns"]) < 1.25,
            reads=("columns",),
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled and {MAX_REGISTERS} registers",
            lambda c: (
                _unrolled(workload, c) <= MAX_UNROLLED and _registers(workload, c) <= MAX_REGISTERS
            ),
            reads=("columns",),
        )
        space.constraint(
            "lanes times channels divides the output channels, and a block reads at least "
            f"{SECTOR_BYTES} bytes at once, if there are enough channels",
            lambda c: (
                workload.out_channels % (c["lanes"] * c["channels"]) == 0
                and _wide_enough(workload, c)
            ),
            reads=("lanes",),
        )
        space.constraint(
            "most threads have a lane, or as many as possible",
            lambda c: c["inputs"] == "shared" or are_filled(c["threads"], c["lanes"], THREADS),
            reads=("threads",),
        )
        if "shared" in inputs:
            space.constraint(
                f'with inputs "shared", a block has whole vectors of {VECTOR_BYTES} bytes, and at '
                "most 512 threads, most of which have outputs",
                lambda c: c["inputs"] != "shared" or _is_filled(workload, c, limits),
                reads=("images",),
            )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory,
            reads=(last,),
        )
        space.constraint(
            "every block has rows, and more steps than are copied ahead",
            lambda c: _has_work(workload, c, limits),
            reads=("blocks",),
        )
        space.constraint(
            "the registers and the shared memory of the resident blocks fit",
            lambda c: (
                c["resident"] == 1
                or (
                    _registers(workload, c) * threads(workload, c) * c["resident"]
                    <= limits.registers_per_unit
                    and 4 * shared_words(workload, c) * c["resident"] <= limits.shared_memory
                )
            ),
            reads=("resident",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        wide = [n for n in _lanes(workload) if _wide_enough(workload, {"lanes": n, "channels": 1})]
        lanes = max((n for n in wide if n <= 32), default=wide[0])
        config: Config = {
            "template": self.name,
            "inputs": "registers",
            "channels": 1,
            "tap_rows": _sides(workload, workload.used_kernel[0])[0],
            "tap_columns": _sides(workload, workload.used_kernel[1])[0],
            "columns": 1,
            "lanes": lanes,
            "threads": usual_threads(lanes, THREADS),
            "ahead": 0,
            "blocks": blocks(workload, limits.units)[0],
            "resident": 1,
        }
        largest = {
            "tap_rows": _sides(workload, workload.used_kernel[0])[-1],
            "tap_columns": _sides(workload, workload.used_kernel[1])[-1],
        }
        most = 1 if _has_one_channel_per_thread(workload) else 2
        for change in (largest, {"columns": 2}, {"columns": 4}, {"channels": most}):
            changed = config | change
            if (
                workload.out_width % changed["columns"] == 0
                and workload.out_channels % (lanes * changed["channels"]) == 0
                and _registers(workload, changed) <= DEFAULT_REGISTERS
                and _unrolled(workload, changed) <= MAX_UNROLLED // 2
            ):
                config = changed
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        share, count = work(workload, config), threads(workload, config)
        registers, shared = _registers(workload, config), 4 * shared_words(workload, config)
        taps = config["tap_rows"] * config["tap_columns"]
        read = _input_columns(workload, config) + config["columns"]
        ahead = config.get("copied_steps", 1) * (config["stages"] - 1) if "stages" in config else 0
        return {
            **bounded_occupancy(config, share.blocks, count, registers, limits, shared),
            "sums_per_thread": taps * config["channels"],
            "products_per_step": taps * config["columns"] * config["channels"],
            "loads_per_product": read / (taps * config["columns"]),
            "steps": share.steps,
            "steps_per_row": share.steps * share.ranges / share.rows,
            "steps_ahead": ahead or config.get("ahead", 0),
            "run_bytes": share.channels * BYTES_PER_ELEMENT[workload.dtype],
            "workspace": share.workspace,
            "padded_share": excess(workload.out_width, config["columns"]),
        }


class CudaWeightPlanes(CudaWeightChannels):
    """A thread sums a tile of taps as in ``CudaWeightChannels``, but of one channel.

    A block has one channel, neighbouring threads have its neighbouring columns, and inputs are read
    straight into registers.
    """

    name = "weight_planes"
    layout = "NCHW"


def work(workload: DepthwiseConv2dWorkload, config: Config) -> Work:
    """Return how a configuration shares out the work."""
    images = config.get("images", 0)
    groups = ceil_div(workload.out_width, config["columns"])
    return Work(
        workload,
        columns=config["columns"],
        tap_rows=config["tap_rows"],
        tap_columns=config["tap_columns"],
        channels=config["lanes"] * config["channels"],
        points=images * groups if images else config["threads"] // config["lanes"],
        images=images,
        blocks_wanted=config["blocks"],
    )


def threads(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of threads of a block."""
    if "threads" in config:
        return int(config["threads"])
    groups = ceil_div(workload.out_width, config["columns"])
    return int(ceil_div(config["images"] * groups * config["lanes"], 32) * 32)


def shared_words(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the 32-bit words of shared memory.

    They hold rows of inputs and gradients, or a row of taps of all places of a block if that is
    more.
    """
    channels = config["lanes"] * config["channels"]
    images, columns = config.get("images", 0), config["columns"]
    groups = ceil_div(workload.out_width, columns)
    points = images * groups if images else config["threads"] // config["lanes"]
    sums = points * channels * config["tap_columns"]
    if config["inputs"] == "registers":
        return int(sums)
    s, size = workload.stride, channels * BYTES_PER_ELEMENT[workload.dtype]
    gradients = 2 if workload.activation != "none" else 1
    if config["inputs"] == "private":
        vectors = s * _span(workload, config) + gradients * columns
        own = vectors * config["channels"] * BYTES_PER_ELEMENT[workload.dtype]
        return int(max(sums, config["stages"] * config["threads"] * own // 4))
    wide = (groups - 1) * columns * s + _span(workload, config)
    step = images * (
        s * wide * _pitch(size, columns * s) + gradients * groups * columns * _pitch(size, columns)
    )
    return int(max(sums, config["stages"] * config["copied_steps"] * step // 4))


def _pitch(size: int, positions: int) -> int:
    """Return the bytes from a position in shared memory to the next; a place has ``positions``.

    If padding can achieve it, neighbouring places then begin in neighbouring banks.
    """
    for pad in range(0, 128, 16):
        if (positions * (size + pad) - size) % 128 == 0:
            return size + pad
    return size


def _inputs(workload: DepthwiseConv2dWorkload) -> list[str]:
    """Return the values of ``inputs``.

    Shared memory is possible if channels are last, have one kernel each and fill words. A block can
    share its inputs if, in addition, channels fill vectors and one tile has all taps.
    """
    size = BYTES_PER_ELEMENT[workload.dtype]
    if _has_one_channel_per_thread(workload):
        return ["registers"]
    private = ["private"] if workload.C * size % WORD_BYTES == 0 else []
    vectors = workload.C * size % VECTOR_BYTES == 0
    can_be_shared = vectors and max(workload.used_kernel) <= MAX_SIDE and workload.out_width <= 512
    return ["registers", *private, *(["shared"] if can_be_shared else [])]


def _has_one_channel_per_thread(workload: DepthwiseConv2dWorkload) -> bool:
    """Return whether a thread has one channel.

    This is so if neighbouring channels of the gradient meet elements that are not neighbours.
    """
    return workload.layout == "NCHW" or workload.multiplier > 1


def _has_work(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    """Return whether every block has rows, and more steps than are copied ahead."""
    share = work(workload, config)
    most = share.rows if share.images else ceil_div(share.rows * share.groups, share.points)
    least = blocks(workload, limits.units)[0]
    copied = config.get("copied_steps", 1)
    return bool(
        (config["blocks"] == least or share.across * most >= config["blocks"])
        and (copied == 1 or (config["stages"] - 1) * copied < share.steps)
    )


def _is_filled(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    """Return whether the threads of a block that shares inputs fit, and most have outputs."""
    size = config["lanes"] * config["channels"] * BYTES_PER_ELEMENT[workload.dtype]
    count = threads(workload, config)
    used = work(workload, config | {"blocks": 1}).points * config["lanes"]
    return bool(
        size % VECTOR_BYTES == 0
        and count <= min(512, limits.threads_per_block)
        and (used >= 0.8 * count or count == 32)
    )


def _sides(workload: DepthwiseConv2dWorkload, near: int) -> list[int]:
    """Return the sides of tiles: all ``near`` used taps or parts of them, and 1 if dilated."""
    apart = {1} if workload.dilation > 1 else set()
    if near <= MAX_SIDE:
        return sorted({near} | apart)
    parts = [n for p in range(2, near) if 4 <= (n := ceil_div(near, p)) <= MAX_SIDE - 1]
    return sorted({parts[0], parts[-1]} | apart)


def _lanes(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return divisors of the number of vectors of channels; only 1 if channels are first."""
    if workload.layout == "NCHW":
        return [1]
    found = set()
    for channels in (n for n in (1, 2, 4, 8) if workload.out_channels % n == 0):
        found |= set(divisors(workload.out_channels // channels, LANES))
    return sorted(found)


def _wide_enough(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    return are_wide_enough(config, _lanes(workload), workload.dtype)


def _span(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of input columns from the first to the last that a thread meets."""
    columns, taps = config["columns"], config["tap_columns"]
    return int((columns - 1) * workload.stride + (taps - 1) * workload.dilation + 1)


def _input_columns(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return how many columns of an input row a thread reads."""
    s, d = workload.stride, workload.dilation
    columns, taps = range(config["columns"]), range(config["tap_columns"])
    return len({v * s + u * d for v in columns for u in taps})


def _unrolled(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of multiply-adds in the code."""
    step = config["tap_rows"] * config["tap_columns"] * config["columns"] * config["channels"]
    return int(step * ring(workload, config["tap_rows"]))


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: sums, the ring, what a step reads, addresses."""
    channels, columns = config["channels"], config["columns"]
    words = ceil_div(channels * BYTES_PER_ELEMENT[workload.dtype], 4)
    sums = config["tap_rows"] * config["tap_columns"] * channels
    kept = ring(workload, config["tap_rows"]) * columns * channels
    gradients = 2 if workload.activation != "none" else 1
    step = _input_columns(workload, config) * words
    if config["inputs"] == "registers":
        rows = workload.stride if config["tap_rows"] > 1 else 1
        step = (config.get("ahead", 0) + 1) * (rows * step + gradients * columns * words)
    return int(sums + kept + step + (channels if workload.bias else 0) + BESIDE)
