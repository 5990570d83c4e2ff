"""Whose turn it is: trials shared out among templates."""

from collections.abc import Mapping


def turns(count: int, tried: Mapping[range, int], left: Mapping[range, int]) -> list[range]:
    """`count` turns, fewer if less is `left`, each for the part with the fewest trials yet."""
    given = dict.fromkeys(left, 0)
    shared: list[range] = []
    while len(shared) < count and (open_ := [part for part in left if given[part] < left[part]]):
        part = min(open_, key=lambda part: tried[part] + given[part])
        given[part] += 1
        shared.append(part)
    return shared
