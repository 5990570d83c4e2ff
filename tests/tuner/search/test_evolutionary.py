"""The evolutionary strategy on made-up devices: how parents are chosen and children made."""

from itertools import islice
from statistics import median

import pytest

from templates.spaces.space import ConfigSpace
from tests.benchmarks.strategies.replay import replay
from tests.tuner.search.surfaces import Surface, direct, rugged, tiled
from tuner.search import Earlier, Result, create


@pytest.mark.parametrize("surface", [direct(), tiled(), rugged()], ids=lambda s: s.space.template)
def test_evolutionary_needs_fewer_trials_than_random(surface: Surface) -> None:
    def trials(name: str, seeds: range) -> float:
        made = (create(name, surface.space, surface.featurize, seed) for seed in seeds)
        return median(surface.trials_to_good(strategy) for strategy in made)

    assert trials("evolutionary", range(15)) < 0.7 * trials("random", range(41))


def test_most_children_resemble_the_fastest_configurations() -> None:
    space = ConfigSpace("bits", 1)
    for place in range(10):
        space.knob(f"bit{place}", [0, 1])

    def ones(index: int) -> int:
        return sum(value for name, value in space[index].items() if name != "template")

    strategy = create("evolutionary", space, lambda _: {}, 1)
    times = [20.0 - ones(index) for index in range(len(space))]
    asked = [index for index, _ in islice(replay(strategy, times, 8), 96)]
    assert median(map(ones, asked[:16])) == 5
    assert median(map(ones, asked[-32:])) >= 8


def test_fastest_trials_of_another_workload_found_the_population() -> None:
    surface = rugged()
    strategy = create("evolutionary", surface.space, surface.featurize, 1)
    past = [
        Earlier(surface.space[i], {}, time_us, i)
        for i, time_us in [(5, 9.0), (700, 2.0), (40, None), (41, 3.0)]
    ]
    gone = Earlier({"template": "rugged"}, {}, 1.0, None)
    assert strategy.warm_up([[*past, gone]])
    assert strategy.ask(8)[:3] == [700, 41, 5]
    assert not create("evolutionary", surface.space, surface.featurize, 1).warm_up([[gone]])


def test_evolutionary_goes_on_if_all_trials_fail() -> None:
    surface = direct()
    strategy = create("evolutionary", surface.space, surface.featurize, 1)
    for _ in range(5):
        strategy.tell([Result(index, None) for index in strategy.ask(8)])
    assert len(strategy.seen) == 40
