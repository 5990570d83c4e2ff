"""A library is called on arrays that begin anywhere. This runs in a child process."""

from pathlib import Path
from typing import Any

import numpy as np

from templates.dtypes import in_numpy
from tuner.library.load import load

OFFSETS = 16


def called_at_all_offsets(path: Path) -> int:
    """How many outputs were the same, with each argument so many elements after an address that is
    divisible by 32 of them."""
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
