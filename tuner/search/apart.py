"""A ranking that does not begin with many of one kind."""

from collections.abc import Callable, Iterable, Sequence

APART = 8
"""So many of the first are no neighbours of each other: what a ranker does not know of one, it does
not know of its neighbours either."""


def apart(ranking: Sequence[int], neighbours: Callable[[int], Iterable[int]]) -> list[int]:
    """The same, the first of which are no neighbours of each other, as far as there are such."""
    chosen: list[int] = []
    near: set[int] = set()
    for index in ranking:
        if len(chosen) == APART:
            break
        if index not in near:
            chosen.append(index)
            near.update(neighbours(index))
    first = set(chosen)
    return chosen + [index for index in ranking if index not in first]
