"""Whose turn it is: trials shared out among templates."""

from collections.abc import Mapping


def turns(
    count: int,
    tried: Mapping[range, int],
    left: Mapping[range, int],
    worth: Mapping[range, float] | None = None,
) -> list[range]:
    """`count` turns, fewer if less is `left`, each for the part with the fewest trials yet; for
    what it is worth, if parts are worth different numbers of trials."""
    given = dict.fromkeys(left, 0)
    shared: list[range] = []
    while len(shared) < count and (open_ := [part for part in left if given[part] < left[part]]):
        part = min(
            open_, key=lambda part: (tried[part] + given[part]) / (worth[part] if worth else 1)
        )
        given[part] += 1
        shared.append(part)
    return shared
