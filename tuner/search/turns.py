"""The sharing of trials among templates."""

from collections.abc import Mapping


def turns(
    count: int,
    tried: Mapping[range, int],
    left: Mapping[range, int],
    worth: Mapping[range, float] | None = None,
) -> list[range]:
    """Return the parts that get the next ``count`` trials, in order; fewer if fewer are ``left``.

    A part is the range of a template's indices. Each trial goes to the part with the fewest trials
    so far, including those in ``tried``. ``worth`` divides the number of a part's trials, so a part
    that is worth twice as much gets twice as many trials."""
    given = dict.fromkeys(left, 0)
    shared: list[range] = []
    while len(shared) < count and (open_ := [part for part in left if given[part] < left[part]]):
        part = min(
            open_, key=lambda part: (tried[part] + given[part]) / (worth[part] if worth else 1)
        )
        given[part] += 1
        shared.append(part)
    return shared
