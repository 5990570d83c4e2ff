"""by_row: a CUDA function written for one signal, applied to every row of an output. This fills in
``rows.cu``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from templates.conv1d.shape import extents, shape
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, program, render

SOURCE = Path(__file__).with_name("rows.cu")


def by_row(
    workload: Conv1dWorkload,
    name: str,
    substitutions: Mapping[str, object],
    paths: Sequence[Path],
    blocks: int,
    threads: int,
    words: int,
) -> Any:
    """Return a program with a grid of ``blocks`` by ``threads`` for each row of the output.

    Each block calls the function ``conv1d_<name>`` of the files at ``paths`` with its row's tensors
    and with ``words`` 32-bit words of shared memory. ``substitutions`` are filled in for ``@NAME@``
    in the files, which may also use elements, epilogue and the workload's extents.
    """
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
    source = render(of_rows, ELEMENTS, EPILOGUE, SOURCE)
    source += render({**extents(workload), **substitutions}, *paths)
    return program(workload, "conv1d_rows", source, workload.rows * blocks, threads, words)
