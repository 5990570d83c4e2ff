"""Search space of the strategies of seed 002, a lecture on tiled convolution, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

STRATEGIES = ("halo_global", "halo_shared", "idle_threads", "several_outputs")
LONGEST_PASS = 48
"""The most rows of taps, and the most columns, in a pass.

With 16 by 16 threads, two by two outputs each and a stride of 2, the tile then fits into 48 KB.
"""


class CudaStrategies(Template[DepthwiseConv2dWorkload]):
    """Strategies for the halo of a block's tile: which threads load it, and how much each loads.

    - ``halo_global``: the tile is in shared memory, and its halo is read from global memory.
    - ``halo_shared``: both are in shared memory, and some threads load more than once.
    - ``idle_threads``: each input of tile and halo has a thread, and threads of the halo do not
      compute.
    - ``several_outputs``: as ``halo_shared``, with ``rows_per_thread`` by ``columns_per_thread``
      outputs a thread.
    """

    name = "strategies"
    kind = "cuda"
    version = 1
    arithmetic = DIRECT
    by_default = False

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept workloads without an epilogue, as in the lecture, but not bfloat16."""
        return limits.kind == "cuda" and workload.is_plain and workload.dtype != "bfloat16"

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("strategy", list(STRATEGIES))
        space.knob("threads_y", [1, 2, 4, 8, 16, 32])
        space.knob("threads_x", [8, 16, 32, 64, 128])
        several = {"strategy": "several_outputs"}
        space.knob("rows_per_thread", [1, 2, 4], when=several)
        space.knob("columns_per_thread", [1, 2, 4], when=several)
        space.constraint(
            f"32 to {limits.threads_per_block} threads a block",
            lambda c: 32 <= c["threads_y"] * c["threads_x"] <= limits.threads_per_block,
            reads=("threads_y", "threads_x"),
        )
        space.constraint(
            'with strategy "several_outputs", a thread has more than one output',
            lambda c: c["strategy"] != "several_outputs" or outputs_per_thread(c) != (1, 1),
        )
        space.constraint(
            "a block is less than twice as high as the plane, or as low as it can be",
            lambda c: (
                c["threads_y"] * outputs_per_thread(c)[0] < 2 * workload.out_height
                or (c["threads_y"], outputs_per_thread(c)[0]) == (1, 1)
            ),
        )
        space.constraint(
            "a block is less than twice as wide as the plane, or as narrow as it can be",
            lambda c: (
                c["threads_x"] * outputs_per_thread(c)[1] < 2 * workload.out_width
                or (c["threads_x"] <= 32 and outputs_per_thread(c)[1] == 1)
            ),
        )
        space.constraint(
            f"at most {limits.shared_memory_per_block} bytes of shared memory",
            lambda c: _shared_bytes(workload, c) <= limits.shared_memory_per_block,
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        threads_y = max(n for n in (1, 2, 4, 8, 16) if n == 1 or n < 2 * workload.out_height)
        return {
            "template": self.name,
            "strategy": "halo_shared",
            "threads_y": threads_y,
            "threads_x": 32 if threads_y == 1 else 16,
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        threads = config["threads_y"] * config["threads_x"]
        rows, columns = outputs_per_thread(config)
        high, wide = tile(workload, config)
        chunk_y, chunk_x = taps_per_pass(workload, config)
        down, across = ceil_div(workload.out_height, high), ceil_div(workload.out_width, wide)
        blocks = workload.B * workload.C * down * across
        taps_h, taps_w = workload.used_kernel
        passes = ceil_div(taps_h, chunk_y) * ceil_div(taps_w, chunk_x)
        shared = _shared_bytes(workload, config)
        resident = max(1, 2048 // threads)
        return {
            **occupancy(blocks, threads, resident, limits),
            "shared_bytes": shared,
            "registers": 2 * rows * columns + 24,
            "passes": passes,
            "halo_from_global": float(config["strategy"] == "halo_global"),
            "row_of_threads": config["threads_x"],
            "work_per_thread": rows * columns * taps_h * taps_w,
            "idle_share": max(0.0, 1 - high * wide / threads),
            "padded_share": down
            * high
            * across
            * wide
            / (workload.out_height * workload.out_width),
            "staged_share": blocks * passes * shared / workload.bytes,
        }


def outputs_per_thread(config: Config) -> tuple[int, int]:
    """Return the rows and columns of outputs of a thread."""
    return int(config.get("rows_per_thread", 1)), int(config.get("columns_per_thread", 1))


def tile(workload: DepthwiseConv2dWorkload, config: Config) -> tuple[int, int]:
    """Return the rows and columns of outputs of a block."""
    threads = config["threads_y"], config["threads_x"]
    if config["strategy"] == "idle_threads":
        chunks = taps_per_pass(workload, config)
        high, wide = (
            (count - chunk) // workload.stride + 1
            for count, chunk in zip(threads, chunks, strict=True)
        )
    else:
        high, wide = (
            count * each for count, each in zip(threads, outputs_per_thread(config), strict=True)
        )
    return high, wide


def taps_per_pass(workload: DepthwiseConv2dWorkload, config: Config) -> tuple[int, int]:
    """Return the rows and columns of taps for which a tile is loaded at a time.

    Passes have about equal length. If threads also cover the halo, a pass is so short that at least
    half of the threads along each side compute.
    """
    longest = LONGEST_PASS, LONGEST_PASS
    if config["strategy"] == "idle_threads":
        longest = config["threads_y"] // 2 + 1, config["threads_x"] // 2 + 1
    rows, columns = (
        ceil_div(taps, ceil_div(taps, most))
        for taps, most in zip(workload.used_kernel, longest, strict=True)
    )
    return rows, columns


def _shared_bytes(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    (high, wide), s = tile(workload, config), workload.stride
    if config["strategy"] == "halo_global":
        return 4 * high * s * wide * s
    rows, columns = taps_per_pass(workload, config)
    return 4 * ((high - 1) * s + rows) * ((wide - 1) * s + columns)
