"""Drawing from a range without repeats."""

from collections.abc import Container

import numpy as np


def draw(
    rng: np.random.Generator, whole: range, count: int, exclude: Container[int] = ()
) -> list[int]:
    """Draw `count` different integers of `whole`, none of them in `exclude`, uniformly.

    Fewer if fewer are left. Takes time in proportion to `count` while much is left.
    """
    drawn: dict[int, None] = {}
    first, size = whole.start, len(whole)
    if count <= 0 or size <= 0:
        return []
    for _ in range(4):
        if 2 * count >= size:
            break
        for index in rng.integers(first, first + size, 2 * count).tolist():
            if index not in exclude:
                drawn[index] = None
                if len(drawn) == count:
                    return list(drawn)
    for index in rng.permutation(size).tolist():
        if len(drawn) == count:
            break
        if index + first not in exclude:
            drawn[index + first] = None
    return list(drawn)
