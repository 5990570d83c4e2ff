"""The strategy ``xgb``, with the real XGBoost, learns on made-up devices."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tests.benchmarks.strategies.replay import replay
from tests.tuner.search.surfaces import Surface, both, direct, luck, rugged, tiled
from tuner.search import Earlier, Prior, Result, create
from tuner.search.xgb import LEARN_FROM

SURFACES = {"direct": direct, "tiled": tiled, "rugged": rugged, "both": both}


@cache
def trials(made: Callable[[], Surface], name: str, seeds: range) -> float:
    surface = made()
    strategies = (create(name, surface.space, surface.featurize, seed) for seed in seeds)
    return median(surface.trials_to_good(strategy) for strategy in strategies)


@pytest.mark.parametrize("name", SURFACES)
def test_xgb_needs_at_most_half_the_trials_of_random(name: str) -> None:
    surface = SURFACES[name]
    assert trials(surface, "xgb", range(9)) <= trials(surface, "random", range(41)) / 2


def test_xgb_learns_to_avoid_failing_configurations() -> None:
    """On this device more work for each thread is faster, until the registers run out and it fails.
    The fastest configurations are next to failing ones."""
    space = ConfigSpace("cliff", 1)
    space.knob("outputs", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32])
    space.knob("step", [1, 2, 4, 8, 16, 32])
    space.knob("threads", [32, 64, 96, 128, 192, 256])
    space.knob("stage", [1, 2, 3, 4])

    def fails(index: int) -> bool:
        return bool(space[index]["outputs"] * space[index]["step"] >= 64)

    def time_us(index: int) -> float:
        c = space[index]
        return 100 / c["outputs"] / c["step"] + c["threads"] / 500 + c["stage"] / 50

    early, late = 0, 0
    for seed in range(3):
        strategy = create("xgb", space, lambda _: {}, seed)
        failed: list[bool] = []
        for _ in range(14):
            asked = strategy.ask(8)
            failed += [fails(i) for i in asked]
            strategy.tell([Result(i, None if fails(i) else time_us(i)) for i in asked])
        early, late = early + sum(failed[:16]), late + sum(failed[-64:])
    assert sum(map(fails, range(len(space)))) > 0.4 * len(space)
    assert early > 0.3 * 3 * 16
    assert late < 0.2 * 3 * 64


def test_history_improves_the_first_batch() -> None:
    surface = direct()
    history = surface.space.sample(np.random.default_rng(0), 64)

    def first_batch(told: list[int]) -> float:
        strategy = create("xgb", surface.space, surface.featurize, seed=1)
        strategy.tell(surface.results(told))
        batch = strategy.ask(8)
        assert not set(batch) & set(told)
        return median(surface.times[index] or 1e9 for index in batch)

    assert first_batch(history) < first_batch([]) / 1.5
    assert first_batch(history) < median(surface.times[index] or 1e9 for index in history) / 1.5


def earlier(surface: Surface, here: Surface, count: int) -> list[Earlier]:
    """Return the first ``count`` trials of a search on ``surface``, with their indices in the space
    of ``here``."""
    strategy = create("xgb", surface.space, surface.featurize, seed=9)
    return [
        Earlier(
            config := surface.space[index],
            surface.featurize(config),
            time_us,
            here.space.index(config) if config in here.space else None,
        )
        for index, time_us in islice(replay(strategy, surface.times, 8), count)
    ]


def test_trials_of_another_workload_halve_the_trials() -> None:
    here, there = direct(), direct(length=4096, taps=96)
    past = earlier(there, here, 64)
    found = []
    for seed in range(9):
        strategy = create("xgb", here.space, here.featurize, seed)
        assert strategy.warm_up([past])
        found.append(here.trials_to_good(strategy))
    assert median(found) <= trials(direct, "xgb", range(9)) / 2


def test_fastest_trials_of_another_workload_are_tried_first_and_once() -> None:
    here, there = direct(), direct(length=4096)
    past = [trial for trial in earlier(there, here, 40) if trial.time_us is not None]
    fastest = sorted(past, key=lambda trial: trial.time_us or 0.0)
    strategy = create("xgb", here.space, here.featurize, 1)
    strategy.tell(here.results([fastest[1].index or 0]))
    strategy.warm_up([past])
    assert strategy.ask(2)[0] == fastest[0].index
    asked = [index for _ in range(20) for index in strategy.ask(8)]
    assert len({*asked, fastest[0].index, fastest[1].index}) == len(asked) + 2


def test_starts_are_half_of_the_first_batches_and_tried_once() -> None:
    surface = direct()
    strategy = create("xgb", surface.space, surface.featurize, 1)
    starts = [3, 50, 7]
    strategy.begin_with(starts)
    batches = [strategy.ask(4) for _ in range(3)]
    assert [[index for index in batch if index in starts] for batch in batches] == [
        [3, 50],
        [7],
        [],
    ]
    assert [len(batch) for batch in batches] == [4, 4, 4]


def test_first_batch_has_a_start_and_the_fastest_of_another_workload() -> None:
    here, there = direct(), direct(length=4096)
    past = [trial for trial in earlier(there, here, 40) if trial.time_us is not None]
    fastest = min(past, key=lambda trial: trial.time_us or 0.0).index
    start = next(index for index in range(len(here.space)) if index != fastest)
    strategy = create("xgb", here.space, here.featurize, 1)
    strategy.begin_with([start])
    strategy.warm_up([past])
    assert {start, fastest} <= {*strategy.ask(4)}


def test_warm_up_without_a_successful_trial_changes_nothing() -> None:
    surface = rugged()

    def proposals(*, warm: bool) -> list[int]:
        strategy = create("xgb", surface.space, surface.featurize, 3)
        nothing = [Earlier(surface.space[5], {}, None, 5)]  # a single trial, which failed
        assert not (warm and strategy.warm_up([nothing, []]))
        return [index for _ in range(4) for index in strategy.ask(8)]

    assert proposals(warm=True) == proposals(warm=False)


@pytest.mark.parametrize("told", [1, LEARN_FROM - 1])
def test_too_few_earlier_trials_do_not_rank_configurations(told: int) -> None:
    """A model of one trial ranks all others as equal. If it ranked nevertheless, the first batch
    would be the first configurations of the space, which have the smallest values of all knobs."""
    here = both()
    strategy = create("xgb", here.space, here.featurize, 1)
    past = earlier(direct(length=4096), here, 64)
    worked = next(trial for trial in past if trial.time_us is not None and trial.index is not None)
    few = [worked, *(trial for trial in past if trial != worked)][:told]
    assert strategy.warm_up([few])
    asked = set(strategy.ask(16))
    seeds = {trial.index for trial in few} & asked
    assert seeds
    for part in here.space.parts:
        places = [(index - part.start) / len(part) for index in asked - seeds if index in part]
        assert max(places) - min(places) > 0.5


def test_warmed_up_search_goes_on_if_all_trials_of_its_workload_fail() -> None:
    here = direct()
    strategy = create("xgb", here.space, here.featurize, 1)
    strategy.warm_up([earlier(direct(length=4096), here, 40)])
    for _ in range(3):
        strategy.tell([Result(index, None) for index in strategy.ask(8)])
    assert len(strategy.seen) == 24


def expecting(surface: Surface, wrong: float) -> Prior:
    """Return a prior: log2 of the true time, plus a random error of up to ``wrong``."""

    def prior(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
        found = []
        for config in configs:
            time_us = surface.cost(config) or 1e4
            found.append(np.log2(time_us) + wrong * luck(config, "wrong"))
        return np.array(found, np.float32)

    return prior


def test_first_batch_follows_the_prior() -> None:
    surface = both()
    strategy = create("xgb", surface.space, surface.featurize, 1, expecting(surface, 0.0))
    assert surface.good & set(strategy.ask(8))


def test_first_batch_follows_the_prior_despite_misleading_earlier_trials() -> None:
    """The earlier trials are misleading: configurations that were fast there are slow here."""
    surface = both()
    sample = surface.space.sample(np.random.default_rng(0), 64)
    past = [
        Earlier(config := surface.space[index], surface.featurize(config), 1e4 / time_us, None)
        for index in sample
        if (time_us := surface.times[index])
    ]
    strategy = create("xgb", surface.space, surface.featurize, 1, expecting(surface, 0.0))
    assert strategy.warm_up([past])
    assert surface.good & set(strategy.ask(8))


def test_roughly_right_prior_halves_the_trials() -> None:
    surface = direct()
    prior = expecting(surface, 2.0)
    guided = [create("xgb", surface.space, surface.featurize, seed, prior) for seed in range(9)]
    found = median(surface.trials_to_good(strategy) for strategy in guided)
    assert found <= trials(direct, "xgb", range(9)) / 2


def test_wrong_prior_costs_few_trials() -> None:
    surface = direct()

    def wrong(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
        return np.array([8 * luck(config, "wrong") for config in configs], np.float32)

    guided = [create("xgb", surface.space, surface.featurize, seed, wrong) for seed in range(9)]
    found = median(surface.trials_to_good(strategy) for strategy in guided)
    assert found <= 1.5 * trials(direct, "xgb", range(9))


def test_first_batch_of_a_large_template_has_nearly_the_best_of_the_prior() -> None:
    space = large(12)

    def prior(configs: Sequence[dict[str, Any]]) -> NDArray[np.float32]:
        logs = [[np.log2(config[f"knob{place}"]) for place in range(5)] for config in configs]
        return np.square(np.array(logs) - [7, 2, 9, 4, 5]).sum(axis=1).astype(np.float32)

    first = [space[index] for index in create("xgb", space, lambda _: {}, 0, prior).ask(8)]
    assert prior(first).min() <= 1  # 11 of the 248832 configurations are as good


def test_search_copes_with_a_template_that_has_new_features() -> None:
    surface = both()
    strategy = create("xgb", surface.space, surface.featurize, seed=1)
    rugged_only = [i for i in range(40) if surface.times[i] is not None]
    assert {surface.space[i]["template"] for i in rugged_only} == {"rugged"}
    strategy.tell(surface.results(rugged_only))
    assert len(strategy.ask(8)) == 8


@pytest.mark.parametrize(("slow", "least", "most"), [(100, 10, 40), (18, 64, 200)])
def test_slower_template_gets_fewer_trials_the_slower_it_is(
    slow: int, least: int, most: int
) -> None:
    """A template that is far slower gets a few trials, which is still more than random trials would
    give this small one. A template that may yet be the fastest gets many."""
    wide, narrow = ConfigSpace("wide", 1), ConfigSpace("narrow", 1)
    for place in range(4):
        wide.knob(f"knob{place}", [2**power for power in range(9)])
        narrow.knob(f"knob{place}", [1, 2, 4, 8])
    union = UnionSpace([wide, narrow])
    base = {"wide": 12, "narrow": slow}
    cost = {i: base[c["template"]] + luck(c, "noise") for i, c in enumerate(union)}
    strategy = create("xgb", union, lambda _: {}, seed=0)
    asked: list[int] = []
    for _ in range(20):
        batch = strategy.ask(16)
        asked += batch
        strategy.tell([Result(index, cost[index]) for index in batch])
    assert least <= sum(union[index]["template"] == "narrow" for index in asked) <= most


def test_first_batch_covers_every_template() -> None:
    spaces = [ConfigSpace(name, 1) for name in ("large", "small", "none", "one")]
    spaces[0].knob("knob", list(range(5000)))
    spaces[1].knob("knob", list(range(9)))
    spaces[2].constraint("never", lambda _: False)
    union = UnionSpace(spaces)
    asked = create("xgb", union, lambda _: {}, 3).ask(9)
    counts = Counter(union[index]["template"] for index in asked)
    assert counts == {"large": 4, "small": 4, "one": 1}


def test_xgb_goes_on_if_all_trials_fail() -> None:
    surface = direct()
    strategy = create("xgb", surface.space, surface.featurize, seed=1)
    for _ in range(5):
        strategy.tell([Result(index, None) for index in strategy.ask(8)])
    assert len(strategy.seen) == 40


def test_first_batch_of_xgb_is_spread_out() -> None:
    surface = rugged()

    def closest(name: str, seed: int) -> float:
        asked = create(name, surface.space, lambda _: {}, seed).ask(8)
        configs = [surface.space[index] for index in asked]
        points = np.log2([[c[f"knob{place}"] for place in range(6)] for c in configs])
        apart = np.square(points[:, None] - points).sum(axis=2)
        return float(np.sqrt(apart[~np.eye(8, dtype=bool)].min()))

    spread, chance = (sum(closest(n, seed) for seed in range(20)) for n in ("xgb", "random"))
    assert spread > 1.15 * chance


def large(values: int) -> ConfigSpace:
    space = ConfigSpace("large", 1)
    for place in range(5):
        space.knob(f"knob{place}", [2**power for power in range(values)])
    return space


@pytest.mark.parametrize(("values", "limit"), [(5, 0.3), (12, 0.6)])
def test_xgb_proposes_a_batch_quickly(values: int, limit: float) -> None:
    space = large(values)
    strategy = create("xgb", space, lambda c: {f"f{n}": c["knob0"] * n for n in range(15)}, seed=0)

    def result(index: int) -> Result:
        c = space[index]
        return Result(index, None if index % 7 == 0 else 1 + abs(c["knob0"] - 4) + 8 / c["knob1"])

    strategy.tell([result(index) for index in space.sample(np.random.default_rng(0), 500)])
    strategy.ask(8)  # imports XGBoost and computes the features of the whole space
    seconds = []
    for _ in range(5):
        before = time.process_time()
        batch = strategy.ask(8)
        seconds.append(time.process_time() - before)
        strategy.tell([result(index) for index in batch])
    assert median(seconds) < limit


def test_large_space_is_searched_beyond_the_first_pool() -> None:
    space = large(12)

    def result(index: int) -> Result:
        logs = np.log2([value for name, value in space[index].items() if name != "template"])
        return Result(index, float(1 + np.square(logs - [7, 2, 9, 4, 5]).sum()))

    strategy = create("xgb", space, lambda _: {}, seed=0)
    best = np.inf
    for _ in range(20):
        results = [result(index) for index in strategy.ask(8)]
        strategy.tell(results)
        best = min(best, *(r.time_us or np.inf for r in results))
    assert best <= 3  # 51 of the 248832 configurations are as good


def test_importing_the_search_imports_neither_xgboost_nor_tvm() -> None:
    code = "import sys, tuner.search; sys.exit('xgboost' in sys.modules or 'tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
