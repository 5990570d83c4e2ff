"""Search spaces of the input's gradient, channels last and channels first, on CUDA."""

from __future__ import annotations

from typing import ClassVar

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.lanes import (
    SECTOR_BYTES,
    USUAL_THREADS,
    are_filled,
    are_wide_enough,
    divisors,
    usual_threads,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_WIDTH = 15  # the most columns of a kernel that is dilated
MAX_SUMS = 96  # the most of a thread
MAX_UNROLLED = 1500  # the most multiply-adds of a row of taps
MAX_REGISTERS = 200  # the most that a thread may be estimated to need
BESIDE = 36  # registers for addresses and the like
THREADS = (64, 96, 128, 192, 256)
LANES = (4, 8, 16, 24, 32, 64, 128)  # limits of a block's lanes


class CudaInputChannels(Template[DepthwiseConv2dWorkload]):
    """A thread sums a patch of elements over the taps that meet them (``input_channels.cu``).

    It serves gradients that no forward template can compute: with a stride, with several kernels
    for a channel, or through an activation. Knobs:

    - ``channels``, ``rows``, ``columns``: neighbouring channels and size of a thread's patch.
    - ``lanes``: vectors of ``channels`` channels that a block has.
    - ``threads``: threads of a block.
    - ``resident``: the least number of blocks for which a unit has room.
    - ``stores``: how results are cached.
    """

    name = "input_channels"
    kind = "cuda"
    version = 3
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True
    layout: ClassVar[str] = "NHWC"

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of an input in this layout on CUDA that no forward workload computes.

        The taps must fit into shared memory, and the kernel must be at most 15 wide or not dilated.
        """
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_input"
            and workload.layout == self.layout
            and workload.as_forward is None
            and (workload.kernel[1] <= MAX_WIDTH or workload.dilation == 1)
            and 4 * shared_words(workload, _smallest(workload)) <= limits.shared_memory
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        channels = (
            [1]
            if _has_one_channel_per_thread(workload)
            else vector_lengths(workload.dtype, workload.C)
        )
        patches = [n * workload.stride for n in (1, 2, 3, 4)]
        space = ConfigSpace(self.name, self.version)
        space.knob("channels", channels)
        space.knob("rows", patches)
        space.knob("columns", patches)
        space.knob("lanes", _lanes(workload))
        space.knob("threads", list(THREADS))
        space.knob("resident", [1, 2, 4, 8])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            f"at most {MAX_SUMS} sums, {MAX_UNROLLED} multiply-adds unrolled and {MAX_REGISTERS} "
            "registers, or the smallest patch of one channel",
            lambda c: (
                (c["channels"], c["rows"], c["columns"]) == (1, workload.stride, workload.stride)
                or (
                    c["rows"] * c["columns"] * c["channels"] <= MAX_SUMS
                    and _unrolled(workload, c) <= MAX_UNROLLED
                    and _registers(workload, c) <= MAX_REGISTERS
                )
            ),
            reads=("columns",),
        )
        space.constraint(
            "a patch is no larger than the plane, or the smallest",
            lambda c: (
                c["rows"] in (workload.stride, min(c["rows"], workload.H))
                and c["columns"] in (workload.stride, min(c["columns"], workload.W))
            ),
            reads=("columns",),
        )
        space.constraint(
            f"lanes times channels divides C, and a block reads at least {SECTOR_BYTES} bytes at "
            "once, if there are enough channels",
            lambda c: workload.C % (c["lanes"] * c["channels"]) == 0 and _wide_enough(workload, c),
            reads=("lanes",),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory,
            reads=("lanes",),
        )
        space.constraint(
            "most threads have a lane, or as many as possible",
            lambda c: are_filled(c["threads"], c["lanes"], THREADS),
            reads=("threads",),
        )
        space.constraint(
            "the registers and the shared memory of the resident blocks fit",
            lambda c: (
                c["resident"] == 1
                or (
                    _registers(workload, c) * c["threads"] * c["resident"]
                    <= limits.registers_per_unit
                    and 4 * shared_words(workload, c) * c["resident"] <= limits.shared_memory
                )
            ),
            reads=("resident",),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        config: Config = {"template": self.name, **_smallest(workload)}
        most = 1 if _has_one_channel_per_thread(workload) else 2
        lanes = _usual(workload)
        usual = {"lanes": lanes, "threads": usual_threads(lanes, THREADS)}
        for change in (usual, {"channels": most}):
            changed = config | change
            if (
                workload.C % (changed["lanes"] * changed["channels"]) == 0
                and 4 * shared_words(workload, changed) <= limits.shared_memory_per_block
                and _registers(workload, changed) <= MAX_REGISTERS
                and _unrolled(workload, changed) <= MAX_UNROLLED
            ):
                config = changed
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        count, registers = config["threads"], _registers(workload, config)
        shared = 4 * shared_words(workload, config)
        outputs = config["rows"] * config["columns"]
        rows = workload.kernel[0] * config["rows"] / workload.stride
        return {
            **bounded_occupancy(config, blocks(workload, config), count, registers, limits, shared),
            "outputs_per_thread": outputs * config["channels"],
            "work_per_thread": rows * _unrolled(workload, config) * workload.multiplier,
            "reads_per_output": rows * _columns(workload, config) * workload.multiplier / outputs,
            "run_bytes": config["lanes"] * config["channels"] * BYTES_PER_ELEMENT[workload.dtype],
            "streaming": config["stores"] == "streaming",
        }


class CudaInputPlanes(CudaInputChannels):
    """A thread sums a patch of elements as in ``CudaInputChannels``, but of one channel.

    Neighbouring threads have neighbouring patches of a channel, and a block has ``lanes`` channels.
    Columns that fill a vector are stored at once.
    """

    name = "input_planes"
    layout = "NCHW"


def blocks(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of blocks in the grid."""
    top, left, _, _ = workload.pads
    s = workload.stride
    before = 0 if _is_planes(workload) else left % s
    strips = ceil_div(workload.H + top % s, config["rows"])
    groups = ceil_div(workload.W + before, config["columns"])
    points = config["threads"] // config["lanes"]
    across = workload.C // (config["lanes"] * config["channels"])
    return int(across * ceil_div(workload.B * strips * groups, points))


def shared_words(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the 32-bit words of a block's taps: one float32 kernel for each of its channels."""
    height, width = workload.kernel
    return int(height * width * config["lanes"] * config["channels"])


def _smallest(workload: DepthwiseConv2dWorkload) -> Config:
    lanes = next(n for n in _lanes(workload) if _wide_enough(workload, {"lanes": n, "channels": 1}))
    return {
        "channels": 1,
        "rows": workload.stride,
        "columns": workload.stride,
        "lanes": lanes,
        "threads": usual_threads(lanes, THREADS),
        "resident": 1,
        "stores": "cached",
    }


def _lanes(workload: DepthwiseConv2dWorkload) -> list[int]:
    return divisors(workload.C, LANES)


def _is_planes(workload: DepthwiseConv2dWorkload) -> bool:
    return workload.layout == "NCHW"


def _has_one_channel_per_thread(workload: DepthwiseConv2dWorkload) -> bool:
    """Return whether a thread has one channel.

    This is so if neighbouring channels meet elements that are not neighbours.
    """
    return _is_planes(workload) or workload.multiplier > 1


def _usual(workload: DepthwiseConv2dWorkload) -> int:
    """Return the usual lanes of a block. Planes have the fewest that leave each thread a patch."""
    least: int = _smallest(workload)["lanes"]
    lanes: list[int] = [least, *(n for n in _lanes(workload) if least < n <= 32)]
    if not _is_planes(workload):
        return lanes[-1]
    s = workload.stride
    patches = workload.B * ceil_div(workload.H, s) * ceil_div(workload.W, s)
    return next((n for n in lanes if USUAL_THREADS // n <= patches), lanes[-1])


def _wide_enough(workload: DepthwiseConv2dWorkload, config: Config) -> bool:
    return _is_planes(workload) or are_wide_enough(config, _lanes(workload), workload.dtype)


def _columns(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return how many columns of a row of the gradient a thread reads."""
    s, d = workload.stride, workload.dilation
    behind = workload.pads[1] % s if _is_planes(workload) else 0
    taps = range(workload.kernel[1])
    met = [v + behind - u * d for v in range(config["columns"]) for u in taps]
    return len({at // s for at in met if at % s == 0})


def _unrolled(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of multiply-adds of a turn. A turn takes ``stride`` rows of taps."""
    patch = config["rows"] * config["columns"] * config["channels"]
    return int(ceil_div(patch * workload.kernel[1], workload.stride))


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: sums, a row of the gradient, taps, addresses."""
    channels = config["channels"]
    sums = config["rows"] * config["columns"] * channels
    return int(sums + _columns(workload, config) * channels + 2 * channels + BESIDE)
