"""Search space of direct sums in register patches on CUDA."""

from __future__ import annotations

import math

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

REGISTERS_PER_THREAD = 240
MAX_UNROLLED = 4000
MAX_LANES = 32
MAX_WEIGHT_REGISTERS = 64
SPARE_REGISTERS = 16
"""Number of estimated registers that the compiler can save before it spills."""
CHAIN_ERROR = 1.5e-7
"""The largest error of a few million float32 sums of n positive products.

It is relative to the sum times sqrt(n).
"""


class CudaPatch(Template[DepthwiseConv2dWorkload]):
    """A thread sums a patch of outputs in registers (``schedules/patch.cu``).

    The thread goes over the input rows inside the plane. Knobs:

    - ``rows_per_thread``, ``columns_per_thread``: size of a patch.
    - ``patches_down``, ``patches_across``: patches of a block in each of its planes.
    - ``images``, ``channels``: images of a block, and channels of each.
    - ``edges``: "exact": each place along a row has separate code, for the taps inside the plane;
      "padded": rows are padded with zeros, and all places share their code.
    - ``lanes``: whether neighbouring lanes have neighbouring planes or columns.
    - ``unroll``: "rows" unrolls the rows of the kernel, too.
    - ``weights``: where a thread keeps its weights if the kernel's rows are unrolled.
    - ``output``: "shared" brings sums to shared memory, to write them in the order of memory.
    """

    name = "patch"
    kind = "cuda"
    version = 3
    arithmetic = DIRECT

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept basic workloads on CUDA with at least five used taps along a side."""
        return limits.kind == "cuda" and max(workload.used_kernel) >= 5 and workload.is_basic

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        height, width = workload.out_height, workload.out_width
        rows = [r for r in (1, 2, 4, 7, 8) if r < 2 * height]
        columns = [c for c in (4, 8, 12, 16, 28, 32, 56) if c < width + 4]
        down = {r: _shares(ceil_div(height, r), 64) for r in rows}
        across = {c: _shares(ceil_div(width, c), 32) for c in columns}
        space = ConfigSpace(self.name, self.version)
        space.knob("rows_per_thread", rows)
        space.knob("columns_per_thread", columns)
        space.knob("edges", ["exact", "padded"])
        space.knob("lanes", ["planes", "columns"], when={"edges": "padded"})
        space.knob("unroll", ["columns", "rows"])
        space.knob("weights", _weights(workload), when={"unroll": "rows"})
        space.knob("patches_down", sorted({d for each in down.values() for d in each}))
        space.knob("patches_across", sorted({a for each in across.values() for a in each}))
        space.knob("images", [p for p in (1, 2, 4, 8, 16, 32) if p < 2 * workload.B])
        space.knob("channels", [p for p in (1, 2, 4, 8, 16, 32) if p < 2 * workload.C])
        space.knob("output", ["direct", "shared"])
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled",
            lambda c: Layout(workload, c).unrolled <= MAX_UNROLLED,
            reads=("rows_per_thread", "columns_per_thread", "edges", "unroll"),
        )
        space.constraint(
            f"about {REGISTERS_PER_THREAD} registers a thread at most",
            lambda c: Layout(workload, c).registers <= REGISTERS_PER_THREAD,
            reads=("rows_per_thread", "columns_per_thread", "edges", "weights"),
        )
        space.constraint(
            'with unroll "rows", a thread has several rows',
            lambda c: c["unroll"] == "columns" or c["rows_per_thread"] > 1,
            reads=("rows_per_thread", "unroll"),
        )
        space.constraint(
            "tiles share the plane's height evenly",
            lambda c: c["patches_down"] in down[c["rows_per_thread"]],
            reads=("rows_per_thread", "patches_down"),
        )
        space.constraint(
            "tiles share the plane's width evenly",
            lambda c: c["patches_across"] in across[c["columns_per_thread"]],
            reads=("columns_per_thread", "patches_across"),
        )
        space.constraint(
            f"at most {MAX_LANES} planes a block, several channels only with one image or all",
            lambda c: (
                c["images"] * c["channels"] <= MAX_LANES
                and (c["channels"] == 1 or c["images"] == 1 or c["images"] >= workload.B)
            ),
            reads=("images", "channels"),
        )
        space.constraint(
            f"at most {limits.threads_per_block} threads, whose registers fit",
            lambda c: _threads_fit(Layout(workload, c), limits),
            reads=(
                "rows_per_thread",
                "columns_per_thread",
                "edges",
                "weights",
                "patches_down",
                "patches_across",
                "images",
                "channels",
            ),
        )
        space.constraint(
            'at least half of the lanes have patches, or lanes is "columns"',
            lambda c: (
                c.get("lanes") == "columns"
                or 2 * c["images"] * c["channels"] * c["patches_down"]
                >= Layout(workload, c).section
            ),
            reads=("edges", "lanes", "patches_down", "images", "channels"),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * Layout(workload, c).words <= limits.shared_memory,
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        config: Config = {
            "template": self.name,
            "rows_per_thread": 1,
            "columns_per_thread": 4,
            "edges": "padded",
            "lanes": "columns",
            "unroll": "columns",
            "patches_down": 1,
            "patches_across": 1,
            "images": 1,
            "channels": 1,
            "output": "direct",
        }
        if workload.out_height >= 4:
            config["rows_per_thread"] = 4
        for knob, extent, most in (
            ("patches_across", ceil_div(workload.out_width, 4), 16),
            ("patches_down", ceil_div(workload.out_height, config["rows_per_thread"]), 16),
        ):
            for share in _shares(extent, most):
                larger = {**config, knob: share}
                if 4 * Layout(workload, larger).words <= limits.shared_memory_per_block:
                    config = larger
        return config

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        layout = Layout(workload, config)
        threads, shared, registers = layout.threads, 4 * layout.words, layout.registers
        resident = resident_blocks(threads, registers, limits, limits.shared_memory // shared)
        rows, columns = _patch(config)
        tile = config["patches_down"] * rows * config["patches_across"] * columns
        across = ceil_div(workload.out_width, columns)
        multiplied = layout.pairs * layout.near_rows / (across * columns)  # for an output
        planes = config["images"] * config["channels"]
        return {
            **occupancy(layout.blocks, threads, resident, limits),
            "shared_bytes": shared,
            "registers": registers,
            "outputs_per_thread": rows * columns,
            "unrolled": layout.unrolled,
            "work_per_thread": multiplied * rows * columns,
            "work_per_unit": multiplied * layout.blocks * planes * tile / limits.units,
            "loads_per_fma": layout.loads / max(1, layout.pairs),
            "idle_share": 1
            - config["images"]
            * config["channels"]
            * config["patches_down"]
            * config["patches_across"]
            / threads,
            "skips": float(config["edges"] == "exact"),
            "staged_output": float(config["output"] == "shared"),
            "padded_share": layout.tiles * tile / (workload.out_width * workload.out_height),
            "staged_share": layout.blocks * shared / workload.bytes,
        }


def row_sums(workload: DepthwiseConv2dWorkload) -> bool:
    """Return whether each row of taps is summed separately, because one sum is too inexact."""
    taps_h, taps_w = workload.used_kernel
    met = min(taps_h, workload.H) * min(taps_w, workload.W)
    return CHAIN_ERROR * math.sqrt(met) > workload.error_of_sums(met)


class Layout:
    """A configuration's threads, memory and work, as ``patch.cu`` lays them out.

    A property reads only the knobs that it needs, so that constraints can be checked early.
    """

    def __init__(self, workload: DepthwiseConv2dWorkload, config: Config) -> None:
        self._workload = workload
        self._config = config

    @property
    def section(self) -> int:
        """Return the number of threads at one place along a row, in whole warps."""
        config = self._config
        patches = config["images"] * config["channels"] * config["patches_down"]
        return ceil_div(patches, 32) * 32

    @property
    def threads(self) -> int:
        config = self._config
        if config.get("lanes") != "columns":
            return int(config["patches_across"] * self.section)
        planes = config["images"] * config["channels"]
        return ceil_div(planes * config["patches_down"] * config["patches_across"], 32) * 32

    @property
    def tiles(self) -> int:
        """Return the number of tiles of a plane."""
        return self._tiles_down * self._tiles_across

    @property
    def blocks(self) -> int:
        workload, config = self._workload, self._config
        groups = ceil_div(workload.B, config["images"]) * ceil_div(workload.C, config["channels"])
        return int(self.tiles * groups)

    @property
    def words(self) -> int:
        """Return the 32-bit words of shared memory."""
        workload, config = self._workload, self._config
        rows, columns = _patch(config)
        taps_h, taps_w = workload.used_kernel
        stride, left = workload.stride, taps_w // 2
        high, wide = config["patches_down"] * rows, config["patches_across"] * columns
        if config["edges"] == "exact" and self._tiles_across == 1:
            quads = ceil_div(workload.W, 4)
        else:
            quads = (ceil_div(left, 4) * 4 + (wide - 1) * stride + left + 4) // 4
        x_plane = (min(workload.H, (high - 1) * stride + taps_h) * (quads | 1)) | 1
        y_plane = (min(high, workload.out_height) * (wide // 4 | 1)) | 1
        staged = max(x_plane, y_plane) if config["output"] == "shared" else x_plane
        weights = config["channels"] * taps_h * (ceil_div(taps_w, 4) | 1)
        return int(4 * (config["images"] * config["channels"] * staged + weights))

    @property
    def near_rows(self) -> int:
        """Return the largest number of input rows that an output row needs."""
        return min(self._workload.used_kernel[0], self._workload.H)

    @property
    def pairs(self) -> int:
        """Return the number of multiply-adds of a row of outputs with a row of inputs."""
        patches = ceil_div(self._workload.out_width, self._config["columns_per_thread"])
        if self._config["edges"] == "padded":
            return int(self._pairs(0) * patches)
        codes = self._codes()
        return sum(self._pairs(place) * count for place, count in codes.items())

    @property
    def unrolled(self) -> int:
        """Return the number of multiply-adds in the code."""
        places = [0] if self._config["edges"] == "padded" else list(self._codes())
        row = sum(self._pairs(place) for place in places)
        times = 1
        if self._config["unroll"] == "rows":  # a patch as high as the plane meets fewer rows
            whole = self._workload.out_height <= self._config["rows_per_thread"]
            times = self.near_rows if whole else self._workload.used_kernel[0]
        return int(row * self._config["rows_per_thread"] * times)

    @property
    def loads(self) -> int:
        """Return the number of 16-byte reads for the multiply-adds that ``pairs`` counts."""
        rows, columns = _patch(self._config)
        taps = self._workload.used_kernel[1]
        segment = self._segment
        return ceil_div(self._workload.out_width, columns) * (
            ceil_div(segment, 4 * rows) + ceil_div(taps, 4)
        )

    @property
    def registers(self) -> int:
        """Return the estimated registers of a thread.

        They hold sums, the shorter one of inputs and weights, streamed values and addresses.
        """
        rows, columns = _patch(self._config)
        taps, segment = self._workload.used_kernel[1], self._segment
        kept = segment if rows > 1 else min(segment, taps)
        if self._config["edges"] == "exact":
            columns = min(columns, self._workload.out_width)
        partial = columns if row_sums(self._workload) else 0
        weights = _weight_registers(self._workload)
        if self._config.get("weights") != "registers":
            weights = 0
        return int(rows * columns + partial + ceil_div(kept, 4) * 4 + weights + 36)

    @property
    def _segment(self) -> int:
        """Return the most inputs of a row that a patch needs."""
        columns = self._config["columns_per_thread"]
        segment = (columns - 1) * self._workload.stride + self._workload.used_kernel[1]
        if self._config["edges"] == "exact":
            segment = min(segment, self._workload.W)
        return int(segment)

    @property
    def _tiles_down(self) -> int:
        rows = self._config["patches_down"] * self._config["rows_per_thread"]
        return ceil_div(self._workload.out_height, rows)

    @property
    def _tiles_across(self) -> int:
        columns = self._config["patches_across"] * self._config["columns_per_thread"]
        return ceil_div(self._workload.out_width, columns)

    def _codes(self) -> dict[int, int]:
        """Return the places along a row with separate code, and how many patches use each."""
        workload, columns = self._workload, self._config["columns_per_thread"]
        step, left = columns * workload.stride, workload.used_kernel[1] // 2
        patches = ceil_div(workload.out_width, columns)
        first = min(patches, ceil_div(left, step))
        last = workload.W - 1 - left - (columns - 1) * workload.stride
        whole = 0 if last < 0 else min(workload.out_width // columns, last // step + 1)
        found = dict.fromkeys(range(first), 1)
        if first < whole:
            found[first] = whole - first
        return found | dict.fromkeys(range(max(first, whole), patches), 1)

    def _pairs(self, place: int) -> int:
        """Return the number of multiply-adds of a patch's row of outputs with a row of inputs."""
        workload, columns = self._workload, self._config["columns_per_thread"]
        taps = workload.used_kernel[1]
        if self._config["edges"] == "padded":
            return int(columns * taps)
        outputs = range(place * columns, min((place + 1) * columns, workload.out_width))
        centres = (output * workload.stride for output in outputs)
        half = taps // 2
        return sum(min(v + half, workload.W - 1) - max(v - half, 0) + 1 for v in centres)


def _patch(config: Config) -> tuple[int, int]:
    return config["rows_per_thread"], config["columns_per_thread"]


def _shares(extent: int, most: int) -> list[int]:
    """Return the extent, its half, its quarter and so on, rounded up, up to ``most``."""
    found = {1}
    while extent > 1:
        if extent <= most:
            found.add(extent)
        extent = ceil_div(extent, 2)
    return sorted(found)


def _weights(workload: DepthwiseConv2dWorkload) -> list[str]:
    """Return where a thread can keep its weights if it unrolls the kernel's rows."""
    few = _weight_registers(workload) <= MAX_WEIGHT_REGISTERS
    return ["shared", "registers"] if few else ["shared"]


def _weight_registers(workload: DepthwiseConv2dWorkload) -> int:
    taps_h, taps_w = workload.used_kernel
    return taps_h * ceil_div(taps_w, 4) * 4


def _threads_fit(layout: Layout, limits: DeviceLimits) -> bool:
    threads = layout.threads
    return (
        threads <= limits.threads_per_block
        and (layout.registers - SPARE_REGISTERS) * threads <= limits.registers_per_unit
    )
