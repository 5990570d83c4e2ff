"""``Expected``: which configurations of a space a prior expects to be the fastest."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from templates.spaces.space import ConfigSpace
from tuner.search.expected import Expected

ASKED = Counter[int]()


def space(size: int) -> ConfigSpace:
    made = ConfigSpace("made", 1)
    made.knob("width", list(range(size)))
    made.knob("depth", list(range(40)))
    return made


def bowl(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
    """Return a prior with its minimum at width 30, depth 20; count the scored configurations."""
    ASKED.update(40 * c["width"] + c["depth"] for c in configs)
    return np.array([(c["width"] - 30) ** 2 + (c["depth"] - 20) ** 2 for c in configs], np.float32)


# The small space is scored as a whole, the large one by a sample and the climbs from it.
@pytest.mark.parametrize("size", [35, 400])
def test_leading_begins_with_the_least_and_scores_nothing_twice(size: int) -> None:
    ASKED.clear()
    whole = space(size)
    expected = Expected(whole, bowl)
    part = range(len(whole))
    leading = expected.leading(np.random.default_rng(0), part)
    assert whole[leading[0]] == {"template": "made", "width": 30, "depth": 20}
    assert expected.scores(leading).tolist() == sorted(expected.scores(leading).tolist())
    assert len(set(leading)) == len(leading)
    assert len(leading) == len(whole) or len(leading) < len(whole) / 2
    assert set(ASKED.values()) == {1}


def test_scores_without_a_prior_are_zero() -> None:
    assert Expected(space(3), None).scores([5, 1, 5]).tolist() == [0, 0, 0]


def test_scores_of_repeated_indices_are_repeated() -> None:
    assert Expected(space(35), bowl).scores([0, 1220, 0]).tolist() == [1300, 0, 1300]
