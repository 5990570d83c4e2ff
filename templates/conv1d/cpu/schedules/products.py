"""Product: a matrix product on a CPU, written in TIR, of lines by columns, summed over depths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.products import tile_lines
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import narrowed
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL

GROUP = 64  # chunks whose sums are added up before they are added to the result
ZERO = tirx.const(0.0, "float32")
Element = Callable[[Any], Any]
"""A function that returns the element of a line or column at a depth, counted from 0 in the
chunk."""


class Product(ABC):
    """Builder of a program, one function with a task for each tile of each of the ``sheets``.

    Depths come in chunks: the sums of a chunk are added to those of its group of 64 chunks, and a
    group's sums to the result. Subclasses say how many chunks there are, and give the elements of a
    ``line`` and of a ``column`` in a chunk.
    """

    sheets: int

    def __init__(
        self, workload: Conv1dWorkload, config: dict[str, Any], lines: int, columns: int
    ) -> None:
        self.workload = workload
        self.all_lines, self.all_columns = lines, columns
        self.lanes: int = config["lanes"]
        self.vectors: int = config["vectors"]
        self.own: int = config["own_columns"]
        self.lines = tile_lines(config)
        self.columns: int = config["columns"]
        self.depth: int = config["depth"]
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    @abstractmethod
    def chunks(self, sheet: Any) -> Any:
        """Return the number of chunks of a sheet."""

    @abstractmethod
    def chunk(self, sheet: Any, number: Any) -> tuple[Any, Any]:
        """Return two values for chunk ``number``: its identification, which ``line`` and ``column``
        take, and its number of depths, at most ``depth``."""

    @abstractmethod
    def line(self, chunk: Any, line: Any) -> Element: ...

    @abstractmethod
    def column(self, sheet: Any, chunk: Any, column: Any) -> Element: ...

    @abstractmethod
    def place(self, sheet: Any, line: Any, column: Any) -> tuple[Any, Any]:
        """Return the flat index of a result in the output, and whether it is in the output at
        all."""

    def input_place(self, b: Any, c: Any, i: Any) -> Any:
        """Return the flat index of a sample in the convolution's input."""
        return self._flat(b, c, i, self.workload.C, self.workload.M)

    def output_place(self, b: Any, c: Any, i: Any) -> Any:
        return self._flat(b, c, i, self.workload.out_channels, self.workload.length)

    def _flat(self, b: Any, c: Any, i: Any, channels: int, extent: int) -> Any:
        if self.workload.layout == "NWC":
            return (b * extent + i) * channels + c
        return (b * channels + c) * extent + i

    def function(self) -> Any:
        across = ceil_div(self.all_columns, self.columns)
        down = ceil_div(self.all_lines, self.lines)
        with main_function(self.workload) as (builder, arguments):
            self.first, self.second, *self.z, self.y = flat(self.workload, arguments)
            with self.loop(0, self.sheets * down * across) as task:
                sheet = ir.Bind(task // (down * across))
                line = ir.Bind(task // across % down * self.lines)
                self._task(sheet, line, ir.Bind(task % across * self.columns))
        return builder.get()

    def _task(self, sheet: Any, first_line: Any, first_column: Any) -> None:
        size = self.lines * self.columns
        lines = tirx.min(self.lines, self.all_lines - first_line)
        columns = tirx.min(self.columns, self.all_columns - first_column)
        with opaque_block("task"):
            self.left = ir.sblock_alloc_buffer((self.lines * self.depth,), "float32")
            self.right = ir.sblock_alloc_buffer((self.columns * self.depth,), "float32")
            self.group = ir.sblock_alloc_buffer((size,), "float32")
            result = ir.sblock_alloc_buffer((size,), "float32")
            for buffer, extent in (
                (self.left, self.lines * self.depth),
                (self.right, self.columns * self.depth),
                (result, size),
            ):
                _zero(buffer, extent)
            chunks = ir.Bind(self.chunks(sheet))
            with ir.serial(0, (chunks + GROUP - 1) // GROUP) as number:
                _zero(self.group, size)
                with ir.serial(0, tirx.min(GROUP, chunks - number * GROUP)) as among:
                    chunk, depths = self.chunk(sheet, number * GROUP + among)
                    self._stage(sheet, chunk, depths, (first_line, lines), (first_column, columns))
                    self._multiply(depths)
                with ir.serial(0, size) as at:
                    ir.buffer_store(result, result[at] + self.group[at], [at])
            with ir.serial(0, columns) as column, ir.serial(0, lines) as line:
                at, is_there = self.place(sheet, first_line + line, first_column + column)
                with ir.If(is_there), ir.Then():
                    total = result[column * self.lines + line]
                    ir.buffer_store(self.y, narrowed(total, self.workload.dtype), [at])

    def _stage(
        self, sheet: Any, chunk: Any, depths: Any, lines: tuple[Any, Any], columns: tuple[Any, Any]
    ) -> None:
        """Stage a chunk in ``left[depth, line]`` and ``right[column, depth]``. ``lines`` and
        ``columns`` are each a first index and a count. Lines and columns beyond the count stay
        zero."""
        with ir.serial(0, lines[1]) as line:
            element = self.line(chunk, lines[0] + line)
            with ir.serial(0, depths) as i:
                ir.buffer_store(self.left, element(i), [i * self.lines + line])
        with ir.serial(0, columns[1]) as column:
            element = self.column(sheet, chunk, columns[0] + column)
            with ir.serial(0, depths) as i:
                ir.buffer_store(self.right, element(i), [column * self.depth + i])

    def _multiply(self, depths: Any) -> None:
        width = self.lanes * self.vectors
        pairs = [(c, v) for c in range(self.own) for v in range(self.vectors)]
        with (
            ir.serial(0, self.lines // width) as block,
            ir.serial(0, self.columns // self.own) as among,
            opaque_block("products"),
        ):
            sums = Sums(len(pairs), self.lanes)
            sums.zero()
            line, column = ir.Bind(block * width), ir.Bind(among * self.own)
            with ir.serial(0, depths) as i:
                scalars = [
                    ir.Bind(self.right[(column + c) * self.depth + i]) for c in range(self.own)
                ]
                with ir.vectorized(0, self.lanes) as lane:
                    for number, (c, v) in enumerate(pairs):
                        vector = self.left[i * self.lines + line + v * self.lanes + lane]
                        sums.add(number, lane, vector * scalars[c])
            with ir.vectorized(0, self.lanes) as lane:
                for number, (c, v) in enumerate(pairs):
                    at = (column + c) * self.lines + line + v * self.lanes + lane
                    total = self.group[at] + sums.load(number, lane)
                    ir.buffer_store(self.group, total, [at])


def _zero(buffer: Any, extent: int) -> None:
    with ir.serial(0, extent) as at:
        ir.buffer_store(buffer, ZERO, [at])
