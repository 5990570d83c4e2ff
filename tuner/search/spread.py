"""A sample of a space that is spread over its knobs, for when nothing is known about the space."""

from collections.abc import Container

import numpy as np

from templates.spaces.search_space import SearchSpace
from tuner.search.features import FeatureTable

CANDIDATES = 16
"""How many random configurations are compared for each that is chosen."""


def spread(
    space: SearchSpace,
    table: FeatureTable,
    rng: np.random.Generator,
    count: int,
    exclude: Container[int],
    within: range,
) -> list[int]:
    """Return ``count`` indices of ``within``, outside ``exclude``, that are far apart in their
    knobs; fewer if fewer are left.

    The method is Mitchell's best candidate: it draws a few random candidates and chooses the one
    that is farthest from all chosen before. This avoids near repeats without drifting into the
    corners of the space.
    """
    drawn = space.sample(rng, count * CANDIDATES, exclude, within)
    points = np.nan_to_num(table.rows(drawn)[:, : table.knob_columns], nan=-0.5)
    nearest = np.full(len(drawn), np.inf)
    left = list(range(len(drawn)))
    chosen: list[int] = []
    while left and len(chosen) < count:
        window = left[:CANDIDATES]
        place = max(window, key=lambda candidate: nearest[candidate])
        chosen.append(drawn[place])
        left = left[CANDIDATES:] + [candidate for candidate in window if candidate != place]
        nearest = np.minimum(nearest, np.square(points - points[place]).sum(axis=1))
    return chosen
