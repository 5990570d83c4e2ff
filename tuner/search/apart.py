"""Rankings of configurations whose beginning is diverse, so that one error of a ranker is not tried
again and again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

APART = 8
"""How many configurations at the beginning of a ranking are no neighbours of each other. What a
ranker does not know about one, it does not know about its neighbours either."""
KIND = ("template", "threading")
"""Knobs on which many others depend. A ranker that misjudges a configuration misjudges all that
share these."""
FURTHER = 0.2
"""How much slower each further configuration of a kind is taken to be, in doublings of its time."""


def apart(ranking: Sequence[int], neighbours: Callable[[int], Iterable[int]]) -> list[int]:
    """Return the ranking with APART configurations moved to its beginning that are no neighbours of
    each other, or fewer if there are fewer. The order is kept otherwise."""
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
    """Return the configuration's values of the knobs KIND, None for those that it lacks."""
    return tuple(config.get(name) for name in KIND)


def mixed(
    expected: Mapping[int, float],
    config: Callable[[int], Mapping[str, Any]],
    neighbours: Callable[[int], Iterable[int]],
) -> list[int]:
    """Return the indices in the order of their expected time, mixed by kind.

    ``expected`` is log2 of the time for each index. Within a kind, :func:`apart` is applied, and
    each further configuration counts as slower by FURTHER. ``config`` returns an index's
    configuration, and ``neighbours`` the indices of its neighbours."""
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for index in sorted(expected, key=lambda index: expected[index]):
        kinds.setdefault(kind_of(config(index)), []).append(index)
    cost = {
        index: expected[index] + FURTHER * place
        for own in kinds.values()
        for place, index in enumerate(apart(own, neighbours))
    }
    return sorted(cost, key=lambda index: cost[index])
