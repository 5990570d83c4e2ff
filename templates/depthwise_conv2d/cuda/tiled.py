"""Search space of the tiled form on CUDA, which stages tiles in shared memory."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda import channels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.kernels.shared_memory import shared_bytes
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

REGISTERS_PER_THREAD = 255
MAX_UNROLLED = 3136


class CudaTiled(Template[DepthwiseConv2dWorkload]):
    """A block stages the input tile of its planes, with its halo, in shared memory.

    It has ``planes`` by ``threads_y`` by ``threads_x`` threads. A thread sums a patch of
    ``rows_per_thread`` by ``columns_per_thread`` outputs. ``staging`` says whether a thread reads
    shared memory directly or through registers, and ``row_pitch`` whether staged rows are padded to
    16 bytes ("aligned").
    """

    name = "tiled"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept workloads whose smallest tile fits into shared memory.

        It leaves the workloads that ``channels`` serves to that template.
        """
        return (
            super().applies(workload, limits)
            and not channels.serves(workload)
            and _shared_bytes(workload, _smallest()) <= limits.shared_memory_per_block
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height, width = workload.out_height, workload.out_width
        planes = workload.B * workload.out_channels
        space = ConfigSpace(self.name, self.version)
        space.knob("planes", [p for p in (1, 2, 4, 8, 16) if planes % p == 0])
        space.knob("threads_y", [1, 2, 4, 7, 8, 14, 16, 28, 32])
        space.knob("threads_x", [4, 7, 8, 14, 16, 28, 32, 56, 64])
        space.knob("rows_per_thread", [1, 2, 4, 7, 8])
        space.knob("columns_per_thread", [1, 2, 4, 8])
        space.knob("row_pitch", ["tight", "aligned"])
        space.knob("staging", ["shared", "registers"])
        space.knob("unroll", ["columns", "rows"])
        space.constraint(
            f"32 to {min(512, limits.threads_per_block)} threads a block",
            lambda c: 32 <= _threads(c) <= min(512, limits.threads_per_block),
            reads=("planes", "threads_y", "threads_x"),
        )
        space.constraint(
            "a tile is less than twice as high as the plane",
            lambda c: (
                c["threads_y"] * c["rows_per_thread"] < 2 * height
                or (c["threads_y"], c["rows_per_thread"]) == (1, 1)
            ),
            reads=("threads_y", "rows_per_thread"),
        )
        space.constraint(
            "a tile is less than twice as wide as the plane, or as narrow as it can be",
            lambda c: (
                c["threads_x"] * c["columns_per_thread"] < 2 * width
                or (c["threads_x"] <= 32 and c["columns_per_thread"] == 1)
            ),
            reads=("threads_x", "columns_per_thread"),
        )
        space.constraint(
            f"at most {limits.shared_memory_per_block} bytes of shared memory",
            lambda c: _shared_bytes(workload, c) <= limits.shared_memory_per_block,
        )
        space.constraint(
            f"about {REGISTERS_PER_THREAD} registers a thread at most",
            lambda c: _registers(workload, c) <= REGISTERS_PER_THREAD,
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled, or a single output a thread",
            lambda c: (
                _unrolled(workload, c) <= MAX_UNROLLED
                or (_patch(c) == 1 and c["unroll"] == "columns")
            ),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        config = {"template": self.name, **_smallest()}
        for threads_y in (2, 4, 8):
            higher = {**config, "threads_y": threads_y}
            fits = _shared_bytes(workload, higher) <= limits.shared_memory_per_block
            if threads_y <= workload.out_height and fits:
                config = higher
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        tile_h, tile_w = _tile(config)
        across = ceil_div(workload.out_width, tile_w)
        down = ceil_div(workload.out_height, tile_h)
        blocks = across * down * workload.B * workload.out_channels // config["planes"]
        threads, shared = _threads(config), _shared_bytes(workload, config)
        registers = _registers(workload, config)
        resident = resident_blocks(
            threads, registers, limits, limits.unit_shared_memory // max(1, shared)
        )
        rows, columns = config["rows_per_thread"], config["columns_per_thread"]
        _, taps_w = workload.used_kernel
        return {
            **occupancy(blocks, threads, resident, limits),
            "shared_bytes": shared,
            "registers": registers,
            "outputs_per_thread": rows * columns,
            "work_per_thread": rows * columns * workload.taps,
            "unrolled": _unrolled(workload, config),
            "loads_per_fma": (columns + taps_w - 1) / (columns * taps_w),
            "store_stride": columns,
            "padded_share": across
            * tile_w
            * down
            * tile_h
            / (workload.out_width * workload.out_height),
            "staged_share": blocks * shared / workload.bytes,
        }


def _smallest() -> Config:
    """Return the configuration that stages least. Any device can run it."""
    return {
        "planes": 1,
        "threads_y": 1,
        "threads_x": 32,
        "rows_per_thread": 1,
        "columns_per_thread": 1,
        "row_pitch": "tight",
        "staging": "shared",
        "unroll": "columns",
    }


def _threads(config: Config) -> int:
    threads: int = config["planes"] * config["threads_y"] * config["threads_x"]
    return threads


def _patch(config: Config) -> int:
    """Return the outputs of a thread."""
    outputs: int = config["rows_per_thread"] * config["columns_per_thread"]
    return outputs


def _tile(config: Config) -> tuple[int, int]:
    """Return the rows and columns of outputs of a block."""
    return (
        config["threads_y"] * config["rows_per_thread"],
        config["threads_x"] * config["columns_per_thread"],
    )


def _shared_bytes(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    near = workload.used_kernel
    height, width = (
        (outputs - 1) * workload.stride + taps.span
        for outputs, taps in zip(_tile(config), workload.used_taps, strict=True)
    )
    if config["row_pitch"] == "aligned":
        width = ceil_div(width, 4) * 4
    planes = config["planes"]
    return shared_bytes(planes * height * width, planes * near[0] * near[1])


def _registers(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the estimated registers: sums, the input rows and weights in flight, addresses."""
    rows, columns = config["rows_per_thread"], config["columns_per_thread"]
    _, taps = workload.used_taps
    segment = (columns - 1) * workload.stride + taps.span
    staged = rows * segment + taps.count if config["staging"] == "registers" else segment
    return int(rows * columns + min(staged, 160) + 24)


def _unrolled(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of multiply-adds in the code."""
    height, width = workload.used_kernel
    taps = height * width if config["unroll"] == "rows" else width
    return _patch(config) * taps
