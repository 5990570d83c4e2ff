"""The strategy that asks for what is expected to be fastest."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from templates.spaces.space import ConfigSpace
from tests.tuner.search.surfaces import luck
from tuner.search import PREDICTED, Result, create


def space(size: int) -> ConfigSpace:
    made = ConfigSpace("made", 1)
    made.knob("width", list(range(1, size + 1)))
    made.knob("depth", list(range(1, 41)))
    return made


def bowl(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
    """Least at width 30, depth 20."""
    return np.array([(c["width"] - 30) ** 2 + (c["depth"] - 20) ** 2 for c in configs], np.float32)


@pytest.mark.parametrize("size", [35, 400])  # scored as a whole, and by a sample and its climbs
def test_it_finds_the_least_that_is_expected(size: int) -> None:
    whole = space(size)
    strategy = create(PREDICTED, whole, lambda _: {}, 0, bowl)
    first = [whole[index] for index in strategy.ask(5)]
    assert first[0] == {"template": "made", "width": 30, "depth": 20}
    assert list(bowl(first)) == [0, 2, 2, 8, 8]  # what differs in one knob comes later


def test_results_change_nothing_and_what_was_told_is_left_out() -> None:
    whole = space(40)
    strategies = [create(PREDICTED, whole, lambda _: {}, 0, bowl) for _ in range(2)]
    order = strategies[0].ask(9)
    strategies[1].tell([Result(order[0], 1.0)])
    assert strategies[1].ask(4) == order[1:5]
    strategies[1].tell([Result(index, 1 + luck(whole[index], "time")) for index in order[1:5]])
    assert strategies[1].ask(4) == order[5:9]
