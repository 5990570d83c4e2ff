"""A program for one signal, for all rows of an output: see ``rows.cu``, which this fills in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.written import (
    ELEMENTS,
    EPILOGUE,
    elements,
    epilogue,
    filled,
    program,
)

SOURCE = Path(__file__).with_name("rows.cu")


def by_row(
    workload: Conv1dWorkload,
    name: str,
    values: Mapping[str, object],
    *paths: Path,
    blocks: int,
    threads: int,
    words: int,
) -> Any:
    """A grid of ``blocks`` for each row, which call ``conv1d_<name>`` of the files, filled in, with
    their row's tensors and with ``words`` of shared memory. The files may use elements and
    epilogue."""
    rows = filled(
        {
            **elements(workload.dtype, "cached", kept=False),
            **epilogue(workload),
            "NAME": name,
            "ROWS": workload.rows,
            "F": workload.out_channels,
            "SEVERAL": workload.multiplier,
            "BLOCKS": blocks,
            **{
                f"ROW_OF_{tensor}": extent * BYTES_PER_ELEMENT[workload.dtype]
                for tensor, extent in zip(
                    "XWY", (workload.M, workload.N, workload.length), strict=True
                )
            },
        },
        ELEMENTS,
        EPILOGUE,
        SOURCE,
    )
    return program(
        workload,
        "conv1d_rows",
        rows + filled(values, *paths),
        blocks=workload.rows * blocks,
        threads=threads,
        words=words,
    )
