"""The simulation of a search: a strategy is replayed on times that are known."""

import pytest

from templates.spaces.space import ConfigSpace
from tests.benchmarks.strategies.replay import replay, trials_to_good
from tuner.search import Result, create

TIMES = [9.0, None, 5.0, 1.04, 1.0, 2.0]


def space() -> ConfigSpace:
    made = ConfigSpace("six", 1)
    made.knob("knob", list(range(6)))
    return made


def test_replay_answers_every_trial_from_the_recording() -> None:
    strategy = create("grid", space(), lambda _: {}, None)
    assert list(replay(strategy, TIMES, 4)) == list(enumerate(TIMES))
    assert strategy.results == dict(enumerate(TIMES))


def test_replay_tells_a_batch_before_it_asks_for_the_next() -> None:
    strategy = create("grid", space(), lambda _: {}, None)
    replayed = replay(strategy, TIMES, 4)
    assert [next(replayed)[0] for _ in range(4)] == [0, 1, 2, 3]
    assert strategy.results == {}
    assert next(replayed)[0] == 4
    assert len(strategy.results) == 4


def test_trials_to_good_counts_up_to_the_first_within_5_percent() -> None:
    assert trials_to_good(create("grid", space(), lambda _: {}, None), TIMES, 4) == 4


def test_trials_to_good_raises_if_no_configuration_worked() -> None:
    with pytest.raises(ValueError, match="empty"):
        trials_to_good(create("grid", space(), lambda _: {}, None), [None] * 6, 4)


def test_trials_to_good_raises_if_the_strategy_was_told_the_best() -> None:
    strategy = create("grid", space(), lambda _: {}, None)
    strategy.tell([Result(3, 1.04), Result(4, 1.0)])
    with pytest.raises(ValueError, match="ran out"):
        trials_to_good(strategy, TIMES, 4)
