"""Rankings that do not begin with many of one kind."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

APART = 8
"""So many of the first are no neighbours of each other: what a ranker does not know of one, it does
not know of its neighbours either."""
KIND = ("template", "threading")
"""Knobs that many others follow from: what is misjudged of one configuration is misjudged of all
that share these."""
FURTHER = 0.2
"""Doublings of its time that each further one of a kind is taken to be slower."""


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


def kind_of(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(config.get(name) for name in KIND)


def mixed(
    expected: Mapping[int, float],
    config: Callable[[int], Mapping[str, Any]],
    neighbours: Callable[[int], Iterable[int]],
) -> list[int]:
    """The indices by the log2 of the time that is expected of them, in which each further one of a
    kind counts as slower, and its neighbours come last."""
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for index in sorted(expected, key=lambda index: expected[index]):
        kinds.setdefault(kind_of(config(index)), []).append(index)
    cost = {
        index: expected[index] + FURTHER * place
        for own in kinds.values()
        for place, index in enumerate(apart(own, neighbours))
    }
    return sorted(cost, key=lambda index: cost[index])
