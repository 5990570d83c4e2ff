"""Rankings of configurations whose beginning is diverse, so that one error of a ranker is not tried
again and again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

DIVERSE = 8
"""How many configurations at the beginning of a ranking are no neighbours of each other. A ranker
that misjudges a configuration misjudges its neighbours, too."""
KIND_KNOBS = ("template", "threading")
"""Knobs on which many others depend. A ranker that misjudges a configuration misjudges all others
with the same values of these knobs."""
SAME_KIND_PENALTY = 0.2
"""How much slower each further configuration of a kind is taken to be, in doublings of its time."""


def spread_neighbours(
    ranking: Sequence[int], neighbours: Callable[[int], Iterable[int]]
) -> list[int]:
    """Return the ranking with up to DIVERSE configurations moved to its beginning that are no
    neighbours of each other. Otherwise the order is kept."""
    chosen: list[int] = []
    near: set[int] = set()
    for index in ranking:
        if len(chosen) == DIVERSE:
            break
        if index not in near:
            chosen.append(index)
            near.update(neighbours(index))
    first = set(chosen)
    return chosen + [index for index in ranking if index not in first]


def kind_of(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the configuration's values of the knobs KIND_KNOBS, None for those that it lacks."""
    return tuple(config.get(name) for name in KIND_KNOBS)


def rank_mixed_by_kind(
    expected: Mapping[int, float],
    config: Callable[[int], Mapping[str, Any]],
    neighbours: Callable[[int], Iterable[int]],
) -> list[int]:
    """Return the indices in the order of their expected time, mixed by kind.

    ``expected`` is log2 of the time for each index. Within a kind, :func:`spread_neighbours` is
    applied, and each further configuration counts as slower by SAME_KIND_PENALTY. ``config``
    returns an index's configuration, and ``neighbours`` the indices of its neighbours."""
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for index in sorted(expected, key=lambda index: expected[index]):
        kinds.setdefault(kind_of(config(index)), []).append(index)
    cost = {
        index: expected[index] + SAME_KIND_PENALTY * place
        for own in kinds.values()
        for place, index in enumerate(spread_neighbours(own, neighbours))
    }
    return sorted(cost, key=lambda index: cost[index])
