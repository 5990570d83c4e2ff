"""Search space of the channels-last form on CUDA."""

from __future__ import annotations

from functools import cache

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div, excess
from templates.depthwise_conv2d.cuda.lanes import SECTOR_BYTES, are_wide_enough, divisors
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.launches.next_launch import begins_next, next_launches
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 81  # the most in registers
MIN_TAPS_SHARED = 25
MAX_UNROLLED = 3136
MAX_UNROLLED_SHARED = 1008  # for a row of taps
MAX_REGISTERS = 232  # the most that a thread may be estimated to need
DEFAULT_REGISTERS = 128
DEFAULT_EXCESS = 1.1  # most outputs that a default computes for each output of a plane
DEFAULT_THREADS = 64  # least for each unit
DEFAULT_STRIPS = (
    ("columns", 2),
    ("rows", 2),
    ("columns", 3),
    ("columns", 4),
    ("rows", 4),
    ("rows", 7),
    ("rows", 14),
)
"""Enlargements of a default's strip, tried one after the other."""
NARROW = 7  # most columns of a plane if a default's strip may have all of them
BESIDE = 28  # registers for addresses and the like
SPARED = 12  # how many of these the compiler can save if it must
LANES = (8, 16, 32, 64, 128)  # limits of a block's lanes


class CudaChannels(Template[DepthwiseConv2dWorkload]):
    """A thread sums a strip of outputs of neighbouring channels (``schedules/channels.cu``).

    With its weights in registers, a thread slides down the input rows. With weights in shared
    memory, which is for large kernels, a block goes through the kernel row by row, and a thread has
    one row of outputs. Knobs:

    - ``weights``: whether each thread has ``loaded`` its own into registers, a block brings them
      to the threads' ``registers`` by way of shared memory, or they stay in ``shared`` memory.
    - ``channels``, ``rows``, ``columns``: channels and size of a thread's strip.
    - ``ahead``: how many rows before its use an input row is read; 0 leaves it to the compiler.
    - ``next_launch``: whether the next launch may begin ``early``, once a block has asked for its
      weights, or ``late``, when all blocks have ended.
    - ``lanes``: vectors of ``channels`` channels that a block has.
    - ``threads``: threads of a block.
    - ``resident``: the least number of blocks for which a unit has room.
    - ``stores``: how results are cached.
    """

    name = "channels"
    kind = "cuda"
    version = 7
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept workloads in layout NHWC without a multiplier, on CUDA."""
        return super().applies(workload, limits) and serves(workload)

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        rows, columns = [1, 2, 3, 4, 5, 7, 8, 10, 14], [1, 2, 3, 4, 5, 6, 7, 8, 10, 14]
        places = _weights(workload)
        space = ConfigSpace(self.name, self.version)
        space.knob("weights", places)
        space.knob("channels", vector_lengths(workload.dtype, workload.C))
        space.knob("columns", [v for v in columns if v <= workload.out_width])
        if "registers" in places:
            kept = {"weights": ["loaded", "registers"]}
            space.knob("rows", [r for r in rows if r <= workload.out_height], when=kept)
            space.knob("ahead", [0, 1, 2, 4], when=kept)
            space.knob("next_launch", next_launches(limits), when=kept)
        space.knob("lanes", _lanes(workload))
        space.knob("threads", [t for t in (64, 128, 256, 512) if t <= limits.threads_per_block])
        space.knob("resident", [1, 2, 3, 4, 5, 6, 8, 10, 12, 16])
        space.knob("stores", ["cached", "streaming"])
        patch = "rows" if "registers" in places else "columns"
        space.constraint(
            "the groups of columns together are less than a third wider than the plane",
            lambda c: excess(workload.out_width, c["columns"]) < 1.34,
            reads=("columns",),
        )
        space.constraint(
            "the strips together are less than a quarter higher than the plane",
            lambda c: excess(workload.out_height, c.get("rows", 1)) < 1.25,
            reads=(patch,),
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled, or, with weights "
            f'"shared", {MAX_UNROLLED_SHARED}',
            lambda c: (
                _unrolled(workload, c)
                <= (MAX_UNROLLED_SHARED if c["weights"] == "shared" else MAX_UNROLLED)
            ),
            reads=(patch,),
        )
        if "registers" in places:
            space.constraint(
                "ahead is less than a strip's input rows",
                lambda c: c.get("ahead", 0) < _rows(workload, c),
                reads=("ahead",),
            )
            space.constraint(
                f"at most {MAX_REGISTERS} registers a thread",
                lambda c: _registers(workload, c) <= MAX_REGISTERS,
                reads=("ahead",),
            )
        space.constraint(
            "lanes times channels divides C, and a block has a thread for each lane",
            lambda c: c["lanes"] <= c["threads"] and workload.C % (c["lanes"] * c["channels"]) == 0,
            reads=("threads",),
        )
        space.constraint(
            f"a block reads at least {SECTOR_BYTES} bytes at once, if there are enough channels",
            lambda c: _wide_enough(workload, c),
            reads=("lanes",),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory,
            reads=("lanes",),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: _registers(workload, c) - SPARED <= registers_each(c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        """Return the largest strips that fit in registers and leave each unit enough threads."""
        config: Config = {
            "template": self.name,
            "weights": _weights(workload)[0],
            **_vectors(workload),
            "columns": 1,
            "threads": 128,
            "resident": 1,
            "stores": "cached",
        }
        if config["weights"] != "shared":
            config |= {"rows": 1, "ahead": 0, "next_launch": next_launches(limits)[0]}
        whole = [("columns", workload.out_width)] if workload.out_width <= NARROW else []
        for knob, value in (*DEFAULT_STRIPS, *whole):
            if knob in config and _is_usual(workload, config | {knob: value}, limits):
                config[knob] = value
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        columns, channels = config["columns"], config["channels"]
        rows = config.get("rows", 1)
        threads, registers = config["threads"], _registers(workload, config)
        shared = 4 * shared_words(workload, config)
        read, outputs = _rows(workload, config) * _columns(workload, config), rows * columns
        fetched = (config.get("ahead", 0) + 1) * _columns(workload, config) * channels
        return {
            **bounded_occupancy(
                config, blocks(workload, config), threads, registers, limits, shared
            ),
            "channels": channels,
            "outputs_per_thread": outputs * channels,
            "work_per_thread": outputs
            * channels
            * workload.used_kernel[0]
            * workload.used_kernel[1],
            "fetched_bytes": fetched * BYTES_PER_ELEMENT[workload.dtype],
            "loads_per_fma": read / (outputs * workload.used_kernel[0] * workload.used_kernel[1]),
            "reads_per_output": read / (outputs * workload.stride**2),
            "padded_share": excess(workload.out_height, rows) * excess(workload.out_width, columns),
            "streaming": config["stores"] == "streaming",
            "loaded_weights": config["weights"] == "loaded",
            "next_begins_early": begins_next(config),
        }


def serves(workload: DepthwiseConv2dWorkload) -> bool:
    """Return whether this template serves a workload. If so, the templates for planes do not.

    On an H200 ``tiled`` took 1.3 to 5.5 times as long in all 22 layers that both served, 17 of
    float16 and 5 of bfloat16. The layers of bfloat16 have been measured again since, without
    ``tiled``.
    """
    return workload.layout == "NHWC" and workload.multiplier == 1


def blocks(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of blocks in the grid."""
    strips = ceil_div(workload.out_height, config.get("rows", 1))
    groups = ceil_div(workload.out_width, config["columns"])
    points = config["threads"] // config["lanes"]
    across = workload.C // (config["lanes"] * config["channels"])
    return int(across * ceil_div(workload.B * strips * groups, points))


def shared_words(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the 32-bit words of a block's weights in shared memory.

    They hold all weights in their dtype, or two rows of taps in float32.
    """
    if config["weights"] == "loaded":
        return 0
    channels = config["lanes"] * config["channels"]
    if config["weights"] == "registers":
        height, width = workload.kernel
        size = BYTES_PER_ELEMENT[workload.dtype]
        return int(ceil_div(channels * height * width * size, 4))
    return int(2 * workload.used_kernel[1] * (channels + config["channels"]))


def _weights(workload: DepthwiseConv2dWorkload) -> list[str]:
    """Return the values of ``weights``: the places where weights can be."""
    height, width = workload.kernel
    in_registers = height * width <= MAX_TAPS
    in_shared = (
        workload.used_kernel[0] * workload.used_kernel[1] >= MIN_TAPS_SHARED or not in_registers
    )
    return [*(["loaded", "registers"] if in_registers else []), *(["shared"] if in_shared else [])]


def _lanes(workload: DepthwiseConv2dWorkload) -> list[int]:
    return divisors(workload.C, LANES)


def _is_usual(workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits) -> bool:
    """Return whether the configuration may be a default."""
    columns, rows = config["columns"], config.get("rows", 1)
    return (
        columns <= workload.out_width
        and rows <= workload.out_height
        and excess(workload.out_width, columns) * excess(workload.out_height, rows)
        <= DEFAULT_EXCESS
        and _unrolled(workload, config) <= MAX_UNROLLED_SHARED
        and _registers(workload, config) <= DEFAULT_REGISTERS
        and blocks(workload, config) * config["threads"] >= DEFAULT_THREADS * limits.units
    )


def _wide_enough(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    return are_wide_enough(config, _lanes(workload), workload.dtype)


def _vectors(workload: DepthwiseConv2dWorkload) -> Config:
    """Return the usual ``channels`` and ``lanes``: at most 32 pairs of channels, if possible."""
    for channels in (2, 1):
        for lanes in reversed(_lanes(workload)):
            found = {"channels": channels, "lanes": lanes}
            whole = workload.C % (lanes * channels) == 0
            if whole and lanes <= 32 and _wide_enough(workload, found):
                return found
    return {"channels": 1, "lanes": _lanes(workload)[-1]}


def _inputs_reached(outputs: int, taps: int, workload: DepthwiseConv2dWorkload) -> int:
    """Return how many input rows or columns ``outputs`` neighbouring outputs meet."""
    return _count_reached(outputs, taps, workload.stride, workload.dilation)


@cache
def _count_reached(outputs: int, taps: int, stride: int, dilation: int) -> int:
    return len({o * stride + t * dilation for o in range(outputs) for t in range(taps)})


def _rows(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of input rows that a thread reads."""
    return _inputs_reached(config.get("rows", 1), workload.used_kernel[0], workload)


def _columns(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of input columns that a thread reads."""
    return _inputs_reached(config["columns"], workload.used_kernel[1], workload)


def _unrolled(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of multiply-adds in the code."""
    height, width = workload.used_kernel
    row = config["columns"] * config["channels"] * width
    return int(row if config["weights"] == "shared" else row * config["rows"] * height)


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: weights, sums, input rows held and fetched, addresses."""
    height, width = workload.used_kernel
    channels, size = config["channels"], BYTES_PER_ELEMENT[workload.dtype]
    columns, words = config["columns"], ceil_div(channels * size, 4)
    if config["weights"] == "shared":  # only neighbouring inputs and weights of a row
        window = min(_columns(workload, config), 2 * columns)
        return int((columns + min(width, columns)) * channels + window * words + BESIDE)
    reach = (height - 1) * workload.dilation + 1
    sums = min(config["rows"], ceil_div(reach, workload.stride)) * columns * channels
    fetched = (config["ahead"] + 1) * _columns(workload, config) * words
    return int(height * width * channels + sums + fetched + channels + BESIDE)
