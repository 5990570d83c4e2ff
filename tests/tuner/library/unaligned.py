"""Call a library on arrays at unaligned addresses. Tests do so in a child process, because a fault
would end the process."""

from pathlib import Path
from typing import Any

import numpy as np

from templates.dtypes import in_numpy
from tuner.library.load import load

OFFSETS = 16


def called_at_all_offsets(path: Path) -> int:
    """Call the library at ``path`` once for each argument and each offset; return how many of the
    outputs equal the first.

    One argument starts ``offset`` elements (0 <= offset < OFFSETS) after an address that is a
    multiple of 32 elements, the others at such an address."""
    library = load(path)
    work = library.workload

    def at(shape: tuple[int, ...], offset: int) -> Any:
        size = int(np.prod(shape))
        memory = np.zeros(size + 64, in_numpy(work.dtype))
        start = -(memory.ctypes.data // memory.itemsize) % 32 + offset
        return memory[start : start + size].reshape(shape)

    shapes = [argument.shape for argument in work.arguments]
    results = []
    for offset in range(OFFSETS):
        for which in range(3):
            x, w, y = (at(shape, offset * (i == which)) for i, shape in enumerate(shapes))
            x[:], w[:], y[:] = 1, 2, np.nan
            results.append(library(x, w, y).copy())
    return sum(bool((each == results[0]).all()) for each in results)
