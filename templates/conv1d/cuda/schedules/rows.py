"""A program for one signal, for all rows of an output: see ``rows.cu``, which this fills in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from templates.conv1d.shape import extents, shape
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.written import ELEMENTS, EPILOGUE, elements, filled, program

SOURCE = Path(__file__).with_name("rows.cu")


def by_row(
    workload: Conv1dWorkload,
    name: str,
    values: Mapping[str, object],
    paths: Sequence[Path],
    blocks: int,
    threads: int,
    words: int,
) -> Any:
    """A grid of ``blocks`` for each row, which call ``conv1d_<name>`` of the files, filled in, with
    their row's tensors and with ``words`` of shared memory. The files may use elements and
    epilogue, and the workload's extents."""
    size = BYTES_PER_ELEMENT[workload.dtype]
    of_rows = {
        **elements(workload.dtype, "cached", kept=False),
        **shape(workload),
        "NAME": name,
        "ROWS": workload.rows,
        "BLOCKS": blocks,
        "ROW_OF_X": workload.M * size,
        "ROW_OF_W": workload.N * size,
        "ROW_OF_Y": workload.length * size,
    }
    source = filled(of_rows, ELEMENTS, EPILOGUE, SOURCE)
    source += filled({**extents(workload), **values}, *paths)
    return program(workload, "conv1d_rows", source, workload.rows * blocks, threads, words)
