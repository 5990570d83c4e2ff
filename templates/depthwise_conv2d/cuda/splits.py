"""Search space of AutoTVM's splits on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy
from templates.kernels.shared_memory import shared_bytes
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template


class CudaSplits(Template[DepthwiseConv2dWorkload]):
    """The choices that seed 003 leaves to AutoTVM.

    The seed names these choices, and counts 2,880 of them for its shape. They are even splits of
    rows and columns between blocks and threads, splits and order of the taps, sums in registers or
    in the output itself, input and weights through shared memory or straight from global memory,
    and the most steps of a loop that is unrolled.
    """

    name = "splits"
    kind = "cuda"
    version = 1
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept only float32 without an epilogue, because sums may be in the output itself."""
        return limits.kind == "cuda" and workload.dtype == "float32" and workload.is_plain

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        most = limits.threads_per_block
        space.split("row_split", workload.out_height, 2, max_factor=most)
        space.split("column_split", workload.out_width, 2, max_factor=most)
        space.knob("staging", ["none", "shared"])
        taps_h, taps_w = workload.used_kernel
        space.split("tap_row_split", taps_h, 2)
        space.split("tap_column_split", taps_w, 2)
        space.knob("taps", ["rows first", "columns first"])
        space.knob("sums", ["output", "registers"])
        space.knob("unrolled_steps", [0, 16, 512])
        space.constraint(
            f"at most {most} threads a block",
            lambda c: c["row_split"][1] * c["column_split"][1] <= most,
            reads=("row_split", "column_split"),
        )
        space.constraint(
            f"at most {limits.shared_memory_per_block} bytes of shared memory",
            lambda c: _shared_bytes(workload, c) <= limits.shared_memory_per_block,
            reads=("row_split", "column_split", "staging"),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        taps_h, taps_w = workload.used_kernel
        return {
            "template": self.name,
            "row_split": _split(workload.out_height, 16),
            "column_split": _split(workload.out_width, 16),
            "staging": "none",
            "tap_row_split": [taps_h, 1],
            "tap_column_split": [taps_w, 1],
            "taps": "rows first",
            "sums": "registers",
            "unrolled_steps": 0,
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        (down, high), (across, wide) = config["row_split"], config["column_split"]
        threads, shared = high * wide, _shared_bytes(workload, config)
        blocks = workload.B * workload.C * down * across
        resident = min(
            max(1, 2048 // threads), 32, max(1, limits.unit_shared_memory // (shared + 1))
        )
        taps_h, taps_w = workload.used_kernel
        read = (high + taps_h - 1) * (wide + taps_w - 1)
        return {
            **occupancy(blocks, threads, resident, limits),
            "idle_lanes": ceil_div(threads, limits.warp_size) * limits.warp_size / threads,
            "row_of_threads": wide,
            "shared_bytes": shared,
            "registers": 32,
            "sums_in_registers": float(config["sums"] == "registers"),
            "columns_first": float(config["taps"] == "columns first"),
            "inner_taps": config["tap_row_split"][1] * config["tap_column_split"][1],
            "unrolled_steps": config["unrolled_steps"],
            "work_per_thread": taps_h * taps_w,
            "read_share": 4 * blocks * read / workload.bytes,
        }


def _shared_bytes(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    if config["staging"] == "none":
        return 0
    (taps_h, taps_w), s = workload.used_kernel, workload.stride
    high, wide = (
        (config["row_split"][1] - 1) * s + taps_h,
        (config["column_split"][1] - 1) * s + taps_w,
    )
    return shared_bytes(high * wide, taps_h * taps_w)


def _split(extent: int, most: int) -> list[int]:
    """Return the split into blocks and threads with the most threads, up to ``most``."""
    inner = max(n for n in range(1, most + 1) if extent % n == 0)
    return [extent // inner, inner]
