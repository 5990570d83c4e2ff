"""Program of the form that sums padded copies of planes on a CPU, written in TIR."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cpu.planes import flat_outputs, padded_bytes, phase, pitch
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of one function. A task stages, sums and writes out a few planes, one by one."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.lanes, self.tile = config["lanes"], config["tile"]
        self.flat, self.bands = (config["form"] == form for form in ("flat", "bands"))
        self.each = config["planes_per_task"]
        self.loop = ir.parallel if config["threading"] == "parallel" else ir.serial
        self.rows, self.columns = workload.out_height, workload.out_width
        self.staged_rows = (
            self.tile if self.bands else self.rows
        )  # rows of outputs whose input is staged at a time
        self.pitch, self.phase = pitch(workload), phase(workload, self.staged_rows)
        # The flat plane, and vectors that are wider than a row, are copied to the output.
        self.copied = self.flat or self.lanes > self.columns

    def function(self) -> Any:
        workload = self.workload
        planes = workload.B * workload.C
        with main_function(workload) as (builder, arguments):
            self.x, self.w, *self.added, self.y = flat(workload, arguments)
            with self.loop(0, ceil_div(planes, self.each)) as task:
                self._task(task, planes)
        return builder.get()

    def _task(self, task: Any, planes: int) -> None:
        patch = self.lanes * self.tile
        with opaque_block("task"):
            vectors = ceil_div(padded_bytes(self.workload, self.staged_rows, patch), 4 * self.lanes)
            padded = ir.sblock_alloc_buffer((vectors * self.lanes,), "float32")
            with ir.serial(0, vectors) as i, ir.vectorized(0, self.lanes) as lane:
                ir.buffer_store(padded, tirx.const(0.0, "float32"), [i * self.lanes + lane])
            if self.flat:
                size = ceil_div(flat_outputs(self.workload), patch) * patch
            else:
                size = self.rows * self.lanes
            sums = ir.sblock_alloc_buffer((size,), "float32") if self.copied else None
            self.taps = self.w
            if self.workload.dtype != "float32":
                self.taps = ir.sblock_alloc_buffer((self.workload.kernel[0] ** 2,), "float32")
            with ir.serial(0, self.each) as i:
                plane = ir.Bind(task * self.each + i)
                with ir.If(plane < planes), ir.Then():
                    if not self.bands:
                        self._stage(padded, plane)
                    if self.flat:
                        self._flat(padded, sums, size // patch, plane)
                    else:
                        self._rows(padded, sums, plane)

    def _stage(self, padded: Any, plane: Any) -> None:
        H, top = self.workload.H, self.workload.used_kernel[0] // 2
        with ir.serial(0, H) as i:
            self._stage_row(padded, (plane * H + i) * self.workload.W, i + top)

    def _stage_band(self, padded: Any, plane: Any, i: Any) -> None:
        """Stage the rows, padding included, that the outputs of a tile from row ``i`` on need."""
        H, W, s, (height, width) = (
            self.workload.H,
            self.workload.W,
            self.workload.stride,
            self.workload.used_kernel,
        )
        with ir.serial(0, (self.tile - 1) * s + height) as h:
            row = ir.Bind(i * s + h - height // 2)
            with ir.If(tirx.all(row >= 0, row < H)):
                with ir.Then():
                    self._stage_row(padded, (plane * H + row) * W, h)
                with ir.Else():
                    there = ir.Bind(self._row(h))
                    with ir.serial(0, W) as j:
                        zero = tirx.const(0.0, "float32")
                        ir.buffer_store(padded, zero, [there + self._column(j + width // 2)])

    def _stage_row(self, padded: Any, here: Any, h: Any) -> None:
        """Copy a row of the input from ``here`` on to row ``h`` of the padded input."""
        left = self.workload.used_kernel[1] // 2
        here, there = ir.Bind(here), ir.Bind(self._row(h))
        if self.workload.stride == 1:
            self._copy_row(self.x, here, padded, there + left, self.workload.W)
        else:
            even, odd = (there + self._column(left + first) for first in (0, 1))
            self._part_row(here, padded, even, odd)

    def _row(self, h: Any) -> Any:
        """Return the index at which row ``h`` of the padded plane begins, in its phase."""
        s = self.workload.stride
        return h % s * (s * self.phase) + h // s * self.pitch

    def _column(self, v: Any) -> Any:
        """Return the distance of column ``v`` from the index that :meth:`_row` returns."""
        s = self.workload.stride
        return v % s * self.phase + v // s

    def _part_row(self, here: Any, padded: Any, even: Any, odd: Any) -> None:
        """Copy the even and the odd ones of a row's W elements to separate places.

        As in :meth:`_copy_row`, whole vectors are copied.
        """
        half = self.workload.W // 2
        if half > 1:
            lanes = min(self.lanes, 1 << (half.bit_length() - 1))
            with ir.serial(0, ceil_div(half, lanes)) as vector:
                start = ir.Bind(tirx.min(vector * lanes, half - lanes))
                pairs = self.x[tirx.Ramp(here + 2 * start, 1, 2 * lanes)]
                both = ir.Bind(widened(pairs, self.workload.dtype, 2 * lanes))
                for first, there in ((0, even), (1, odd)):
                    value = tirx.Shuffle([both], list(range(first, 2 * lanes, 2)))
                    ir.buffer_store(padded, value, [tirx.Ramp(there + start, 1, lanes)])
        for column in range(2 * half if half > 1 else 0, self.workload.W):
            value = self.x[here + column].astype("float32")
            ir.buffer_store(padded, value, [(odd if column % 2 else even) + column // 2])

    def _copy_row(
        self, source: Any, here: Any, target: Any, there: Any, count: int, plane: Any = None
    ) -> None:
        """Copy ``count`` elements as whole vectors. The last vector overlaps the one before."""
        lanes = min(self.lanes, 1 << (count.bit_length() - 1))
        with ir.serial(0, ceil_div(count, lanes)) as vector:
            start = ir.Bind(tirx.min(vector * lanes, count - lanes))
            with ir.vectorized(0, lanes) as lane:
                address = there + start + lane
                value = self._stored(target, source[here + start + lane], address, plane)
                ir.buffer_store(target, value, [address])

    def _flat(self, padded: Any, sums: Any, steps: int, plane: Any) -> None:
        lanes, (height, _) = self.lanes, self.workload.used_kernel
        weights = self._weights(plane)
        with ir.serial(0, steps) as step:
            start = ir.Bind(step * (lanes * self.tile))
            offsets = [vector * lanes for vector in range(self.tile)]
            terms = [
                (self._row(ky) + offset, vector, ky * self.workload.kernel[0])
                for ky in range(height)
                for vector, offset in enumerate(offsets)
            ]
            self._sum(padded, start, weights, terms, sums, [start + o for o in offsets], plane)
        self._write_out(sums, self.pitch, plane)

    def _write_out(self, sums: Any, row: int, plane: Any) -> None:
        with ir.serial(0, self.rows) as i:
            here, there = ir.Bind(i * row), ir.Bind((plane * self.rows + i) * self.columns)
            self._copy_row(sums, here, self.y, there, self.columns, plane)

    def _stored(self, target: Any, value: Any, address: Any, plane: Any) -> Any:
        """Return the value to store in ``target``: in the output, the epilogue's result."""
        if target is not self.y:
            return value.astype(target.dtype)
        return apply_epilogue(self.workload, value, self.added, plane % self.workload.C, [address])

    def _rows(self, padded: Any, sums: Any, plane: Any) -> None:
        rows, columns, lanes, tile = self.rows, self.columns, self.lanes, self.tile
        H, s, (height, _) = self.workload.H, self.workload.stride, self.workload.used_kernel
        # If a tile is a whole plane, it is known which rows are padding.
        top, span = height // 2, (tile - 1) * s + height
        inside = range(top, min(top + H, span)) if tile == rows else range(span)
        weights = self._weights(plane)
        with ir.serial(0, ceil_div(rows, tile)) as band:
            i = ir.Bind(tirx.min(band * tile, rows - tile))
            if self.bands:
                self._stage_band(padded, plane, i)
            with ir.serial(0, ceil_div(columns, lanes)) as vector:
                j = ir.Bind(tirx.min(vector * lanes, max(0, columns - lanes)))
                terms = [
                    (self._row(h), row, (h - row * s) * self.workload.kernel[0])
                    for h in inside
                    for row in range(tile)
                    if 0 <= h - row * s < height
                ]
                start = j if self.bands else ir.Bind(i * self.pitch + j)
                if self.copied:
                    target, buffer, row_size = ir.Bind(i * lanes), sums, lanes
                else:
                    target, buffer, row_size = (
                        ir.Bind((plane * rows + i) * columns + j),
                        self.y,
                        columns,
                    )
                places = [target + row * row_size for row in range(tile)]
                self._sum(padded, start, weights, terms, buffer, places, plane)
        if self.copied:
            self._write_out(sums, lanes, plane)

    def _weights(self, plane: Any) -> Any:
        """Return the index in ``taps`` at which the used weights of a plane begin.

        Weights of 16 bits are copied to ``taps``, because otherwise every patch would convert them.
        """
        K, (height, width) = self.workload.kernel[0], self.workload.used_kernel
        first = (K // 2 - height // 2) * K + K // 2 - width // 2
        here = plane % self.workload.C * (K * K)
        flipped = self.workload.is_flipped
        if self.taps is self.w:
            return ir.Bind(here + (K * K - 1 - first if flipped else first))
        with ir.serial(0, K * K) as tap:
            weight = self.w[here + (K * K - 1 - tap if flipped else tap)]
            ir.buffer_store(self.taps, weight.astype("float32"), [tap])
        return first

    def _sum(
        self,
        padded: Any,
        start: Any,
        weights: Any,
        terms: list[tuple[int, int, int]],
        target: Any,
        places: list[Any],
        plane: Any,
    ) -> None:
        """Store a vector of sums at each of the places.

        A term is (offset of the input, number of the place, offset of the weight) for the first
        column of the kernel. Terms with the same input offset follow each other and share its load.

        The columns are a loop, because LLVM would otherwise hoist the broadcasts of all weights out
        of the outer loops and spill them.
        """
        lanes = self.lanes
        with opaque_block("sum"):
            sums = ir.sblock_alloc_buffer((len(places) * lanes,), "float32", scope="local")
            # Separate loops: a buffer used in only one vectorised loop would shrink to a lane.
            with ir.vectorized(0, lanes) as lane:
                for place in range(len(places)):
                    ir.buffer_store(sums, tirx.const(0.0, "float32"), [place * lanes + lane])
            _, width = self.workload.used_kernel
            turned = self.workload.is_flipped and self.taps is self.w
            with ir.serial(0, width) as kx, ir.vectorized(0, lanes) as lane:
                loaded, value = None, None
                for offset, place, tap in terms:
                    if offset != loaded:
                        where = start + self._column(kx) + lane + offset
                        loaded, value = offset, ir.Bind(padded[where])
                    weight = ir.Bind(
                        self.taps[weights - kx - tap if turned else weights + kx + tap]
                    )
                    index = place * lanes + lane
                    ir.buffer_store(sums, sums[index] + value * weight, [index])
            with ir.vectorized(0, lanes) as lane:
                for place, address in enumerate(places):
                    total = sums[place * lanes + lane]
                    value = self._stored(target, total, address + lane, plane)
                    ir.buffer_store(target, value, [address + lane])
