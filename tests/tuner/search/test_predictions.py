"""The strategy that asks for the configurations that a prior expects to be the fastest."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tests.tuner.search.surfaces import luck
from tuner.search import PREDICTED, Result, create

THREADING = ["serial", "parallel"]


def space(size: int) -> ConfigSpace:
    made = ConfigSpace("made", 1)
    made.knob("width", list(range(1, size + 1)))
    made.knob("depth", list(range(1, 41)))
    return made


def threaded(template: str) -> ConfigSpace:
    made = ConfigSpace(template, 1)
    made.knob("threading", THREADING)
    made.knob("width", list(range(1, 9)))
    made.knob("depth", list(range(1, 9)))
    return made


def bowl(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
    """Return a prior with its minimum at width 30, depth 20, and values little above it nearby."""
    squares = [(c["width"] - 30) ** 2 + (c["depth"] - 20) ** 2 for c in configs]
    return np.array(squares, np.float32) / 1024


# The small space is scored as a whole, the large one by a sample and the climbs from it.
@pytest.mark.parametrize("size", [35, 400])
def test_predicted_strategy_asks_first_for_the_least_of_the_prior(size: int) -> None:
    whole = space(size)
    strategy = create(PREDICTED, whole, lambda _: {}, 0, bowl)
    first = [whole[index] for index in strategy.ask(5)]
    assert first[0] == {"template": "made", "width": 30, "depth": 20}
    # Configurations that differ from the first in one knob only (1, 1, ...) come later.
    assert list(1024 * bowl(first)) == [0, 2, 2, 8, 8]


def test_first_predictions_cover_several_templates_and_threadings() -> None:
    """The expectation may be wrong about a whole template or number of threads, so the first batch
    also has others, unless they are expected to be far slower."""
    union = UnionSpace([threaded("liked"), threaded("close"), threaded("far")])
    expected = {"liked": 0.0, "close": 0.5, "far": 3.0}

    def prior(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
        times = [
            expected[c["template"]] + (c["threading"] == "serial") / 4 + c["width"] / 1000
            for c in configs
        ]
        return np.array(times, np.float32)

    asked = create(PREDICTED, union, lambda _: {}, 0, prior).ask(8)
    kinds = [(union[index]["template"], union[index]["threading"]) for index in asked]
    assert kinds[0] == ("liked", "parallel")
    assert Counter(kinds) == {
        ("liked", "parallel"): 4,
        ("liked", "serial"): 3,
        ("close", "parallel"): 1,
    }


def test_results_do_not_change_the_order_of_predictions() -> None:
    whole = space(40)
    strategies = [create(PREDICTED, whole, lambda _: {}, 0, bowl) for _ in range(2)]
    order = strategies[0].ask(9)
    strategies[1].tell([Result(order[0], 1.0)])
    assert strategies[1].ask(4) == order[1:5]
    strategies[1].tell([Result(index, 1 + luck(whole[index], "time")) for index in order[1:5]])
    assert strategies[1].ask(4) == order[5:9]
