"""Search space of the direct form on CUDA, which stages nothing."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda import channels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_UNROLLED = 1024
REGISTERS_BESIDE_SUMS = 24


class CudaDirect(Template[DepthwiseConv2dWorkload]):
    """A thread sums ``columns`` neighbouring outputs of a row, reading input and weights in place.

    Neighbouring threads have neighbouring channels if channels are last.
    """

    name = "direct"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept workloads that neither ``channels`` nor the templates of basic workloads serve.

        Those templates are faster.
        """
        faster = workload.is_basic or channels.serves(workload)
        return super().applies(workload, limits) and not faster

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height, width = workload.used_kernel
        space = ConfigSpace(self.name, self.version)
        space.knob("threads", [t for t in (32, 64, 128, 256, 512) if t <= limits.threads_per_block])
        space.knob("columns", [1, 2, 3, 4, 6, 7, 8])
        space.knob("unroll", ["none", "columns", "rows"])
        space.constraint(
            "no more columns than a row of outputs has",
            lambda c: c["columns"] == 1 or c["columns"] <= workload.out_width,
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled",
            lambda c: (
                c["unroll"] == "none"
                or c["columns"] * width * (height if c["unroll"] == "rows" else 1) <= MAX_UNROLLED
            ),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "threads": 128,
            "columns": 1,
            "unroll": "none",
        }

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        columns, threads = config["columns"], config["threads"]
        height, width = workload.used_kernel
        across = ceil_div(workload.out_width, columns)
        rows = workload.B * workload.out_channels * workload.out_height
        blocks = ceil_div(rows * across, threads)
        registers = 2 * columns + REGISTERS_BESIDE_SUMS
        resident = resident_blocks(threads, registers, limits)
        taps = {"none": 1, "columns": width, "rows": height * width}[config["unroll"]]
        return {
            **occupancy(blocks, threads, resident, limits),
            "shared_bytes": 0,
            "registers": registers,
            "outputs_per_thread": columns,
            "work_per_thread": columns * workload.taps,
            "unrolled": columns * taps,
            "loads_per_fma": (columns * workload.stride + width - 1) / (columns * width),
            "padded_share": across * columns / workload.out_width,
        }
