"""The rules that every search strategy keeps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.ceil_div import ceil_div
from templates.spaces.space import ConfigSpace
from tests.tuner.search.surfaces import luck, rugged
from tuner.errors import TunerError, UnknownStrategy
from tuner.search import DEFAULT, METASCHEDULE, Result, create, strategies

IN_SPACES = [name for name in strategies() if name != METASCHEDULE]


def small(size: int) -> ConfigSpace:
    space = ConfigSpace("small", 1)
    space.knob("tile", list(range(1, 1 + ceil_div(size, 3))))
    space.knob("stage", ["one", "two", "three"])
    space.constraint("size", lambda c: 3 * c["tile"] + len(c["stage"]) % 3 <= size + 3)
    return space


def time_of(space: ConfigSpace, index: int, failing: float) -> float | None:
    return None if luck(space[index], "fails") < failing else 1 + luck(space[index], "time")


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(IN_SPACES),
    size=st.integers(1, 90),
    seed=st.integers(0, 99),
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    failing=st.sampled_from([0.0, 0.3, 1.0]),
    history=st.sets(st.integers(0, 89), max_size=30),
    telling=st.booleans(),
)
def test_strategy_asks_once_for_each_configuration_that_it_was_not_told(
    *,
    name: str,
    size: int,
    seed: int,
    counts: list[int],
    failing: float,
    history: set[int],
    telling: bool,
) -> None:
    space = small(size)
    strategy = create(name, space, lambda c: {"area": c["tile"] ** 2}, seed)
    known = [index for index in history if index < len(space)]
    strategy.tell([Result(index, time_of(space, index, failing)) for index in known])
    asked: list[int] = []
    for turn in range(10 * len(space)):
        batch = strategy.ask(counts[turn % len(counts)])
        left = len(space) - len(known) - len(asked)
        assert len(batch) == min(counts[turn % len(counts)], left)
        if not batch:
            break
        asked += batch
        if telling:
            strategy.tell([Result(index, time_of(space, index, failing)) for index in batch])
    assert sorted(asked + known) == list(range(len(space)))
    assert strategy.ask(3) == []


@pytest.mark.parametrize("name", ["xgb", "random", "evolutionary"])
def test_seed_determines_the_proposals(name: str) -> None:
    surface = rugged()

    def proposals(seed: int | None) -> list[int]:
        strategy = create(name, surface.space, surface.featurize, seed)
        asked: list[int] = []
        for _ in range(6):
            batch = strategy.ask(8)
            asked += batch
            strategy.tell(surface.results(batch))
        return asked

    assert proposals(7) == proposals(7)
    assert proposals(7) != proposals(8)
    assert proposals(None) != proposals(None)


def test_grid_asks_in_the_order_of_the_space() -> None:
    strategy = create("grid", small(30), lambda _: {}, None)
    strategy.tell([Result(1, 5.0), Result(4, None)])
    assert strategy.ask(4) + strategy.ask(1) == [0, 2, 3, 5, 6]


def test_random_asks_uniformly() -> None:
    space = small(30)
    first = [create("random", space, lambda _: {}, seed).ask(1)[0] for seed in range(3000)]
    counts = np.bincount(first, minlength=len(space))
    assert counts.min() > 60
    assert counts.max() < 150


@pytest.mark.parametrize("name", IN_SPACES)
@pytest.mark.parametrize("index", [-1, 10**6])
def test_result_outside_the_space_is_refused_and_nothing_is_kept(name: str, index: int) -> None:
    strategy = create(name, small(9), lambda _: {}, 0)
    with pytest.raises(IndexError):
        strategy.tell([Result(0, 1.0), Result(index, 1.0)])
    assert sorted(strategy.ask(100)) == list(range(len(small(9))))


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_time_of_a_result_must_be_positive_and_finite(time: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        Result(0, time)


def test_unknown_strategy_is_refused_with_a_list_of_the_known() -> None:
    with pytest.raises(
        UnknownStrategy,
        match=r"'annealing'.*evolutionary, grid, metaschedule, predicted, random, xgb",
    ) as refusal:
        create("annealing", small(9), lambda _: {}, 0)
    assert isinstance(refusal.value, TunerError)
    assert strategies()[0] == DEFAULT == "xgb"
