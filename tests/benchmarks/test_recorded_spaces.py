"""Recorded spaces are complete and stored in small files. Replayed searches reach their bars."""

from math import log
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from templates import operators
from templates.errors import InvalidConfig
from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tests.benchmarks.predicted.known import SAMPLES, known, others
from tests.benchmarks.predicted.shapes import extents, to_search
from tests.benchmarks.strategies.compare import ALONE, ALONE_WARM, GUIDED, WARM, compared
from tests.benchmarks.strategies.page import AT_MOST, markdown, mean_curves
from tests.benchmarks.strategies.picture import picture
from tests.benchmarks.strategies.rankers import ranker_without
from tests.benchmarks.strategies.recorded_space import RecordedSpace
from tests.benchmarks.strategies.recording import FOLDER, JUDGED, load, names, samples
from tests.benchmarks.strategies.searches import found_after, searches
from tests.benchmarks.strategies.shapes import CHOSEN_ON, JUDGED_ON, listed, recorded, workload
from tests.benchmarks.strategies.space_json import to_json
from tests.benchmarks.strategies.subgrids import Subgrids
from tuner.plan.ranker import pretrained

RECORDINGS = {name: load(name) for name in names()}
JUDGED_KEYS = [(kind, name) for kind in JUDGED_ON for name in JUDGED_ON[kind]]


def test_stored_recordings_are_small_and_of_listed_shapes() -> None:
    """Every stored recording has a listed shape, so the commands can record it again."""
    assert set(RECORDINGS) < set(CHOSEN_ON["cpu"])
    assert len(RECORDINGS) >= 4
    listed = {
        f"{kind} {workload(*shape).key}"
        for lists in (CHOSEN_ON, JUDGED_ON)
        for kind in lists
        for shape in lists[kind].values()
    }
    assert samples().keys() <= listed
    assert len(samples()) >= 12
    paths = [path for folder in (FOLDER, SAMPLES, JUDGED) for path in folder.iterdir()]
    assert all(path.stat().st_size < 200_000 for path in paths)


def test_judged_shapes_share_no_extents_with_chosen_shapes() -> None:
    """A shape with the same extents but another batch, layout or dtype counts as the same."""
    for kind in CHOSEN_ON:
        chosen = {extents(workload(*shape)) for shape in CHOSEN_ON[kind].values()}
        judged = {extents(workload(*shape)) for shape in JUDGED_ON[kind].values()}
        assert len(judged) == len(JUDGED_ON[kind]) >= 4
        assert not chosen & judged


@pytest.mark.parametrize("kind", JUDGED_ON)
def test_judged_shapes_are_the_first_of_a_draw(kind: str) -> None:
    judged = [workload(*shape) for shape in JUDGED_ON[kind].values()]
    assert [each.key for each in judged] == [each.key for each in to_search(kind, len(judged))]
    learnt = {
        extents(each.shape.shape) for operator in operators() for each in known(operator.name, kind)
    }
    assert not learnt & {*map(extents, judged)}


@pytest.mark.parametrize(("kind", "name"), listed())
def test_replay_ranker_learns_from_no_shape_with_the_searched_extents(kind: str, name: str) -> None:
    here = recorded(kind, name)
    learnt = others(here.shape, kind)
    assert len(learnt) > 20
    assert extents(here.shape) not in {extents(each.shape.shape) for each in learnt}


@pytest.mark.parametrize(
    ("kind", "name"), [*JUDGED_KEYS, ("cpu", "depthwise-7x7k5"), ("cpu", "conv1d-8192x31")]
)
def test_replay_uses_the_packaged_ranker_unless_it_knows_the_shape(kind: str, name: str) -> None:
    here = recorded(kind, name).shape
    knows = {extents(each.shape.shape) for each in known(here.operator, kind)}
    packaged = ranker_without(kind, here) is pretrained(here.operator, kind)
    assert packaged == (extents(here) not in knows) == (name != "conv1d-8192x31")


@pytest.mark.parametrize("name", RECORDINGS)
def test_whole_space_recording_has_a_time_for_each_configuration(name: str) -> None:
    here = RECORDINGS[name]
    assert len(here.times) == len(here.space) >= 500
    assert 1 <= here.good <= len(here.space) / 50
    assert all(here.features(here.space[index]) for index in (0, len(here.space) - 1))


@pytest.mark.parametrize("key", samples())
def test_sampled_recording_has_a_time_for_each_configuration(key: str) -> None:
    here = samples()[key]
    assert len(here.times) == len(here.space) >= 300
    was_drawn = key in {f"{kind} {recorded(kind, name).shape.key}" for kind, name in JUDGED_KEYS}
    assert 1 <= here.good <= len(here.space) / (15 if was_drawn else 30)
    near = [len(here.space.neighbours(index)) for index in range(0, len(here.space), 10)]
    assert fmean(near) > 3


@pytest.mark.parametrize("name", RECORDINGS)
def test_space_is_written_as_the_json_it_was_read_from(name: str) -> None:
    for again, stored in zip(
        to_json(RECORDINGS[name].space)["spaces"],
        RECORDINGS[name].space_json["spaces"],
        strict=True,
    ):
        assert again == {field: stored[field] for field in again}


def test_saving_a_recorded_space_again_gives_the_same_file(tmp_path: Path) -> None:
    here = RECORDINGS["depthwise-7x7k5"]
    here.save(tmp_path / "again.json.gz")
    stored = (FOLDER / "depthwise-7x7k5.json.gz").read_bytes()
    assert (tmp_path / "again.json.gz").read_bytes() == stored


def union() -> UnionSpace:
    one, other = ConfigSpace("one", 1), ConfigSpace("other", 1)
    for place in range(4):
        one.knob(f"knob{place}", list(range(6)))
    one.constraint("sum", lambda c: (c["knob0"] + c["knob1"]) % 2 == 0)
    other.knob("knob0", [1, 2, 3])
    other.knob("extra", ["a", "b"], when={"knob0": 2})
    return UnionSpace([one, other])


def test_recorded_space_has_exactly_the_recorded_configurations() -> None:
    whole = union()
    again = RecordedSpace(list(whole))
    assert [again[index] for index in range(len(again))] == list(whole)
    assert again.parts == whole.parts
    for index in range(0, len(whole), 37):
        assert again.neighbours(index) == whole.neighbours(index)
        assert again.index(whole[index]) == index
    part = RecordedSpace(list(whole)[:5])
    with pytest.raises(InvalidConfig, match="not recorded"):
        part.index(whole[5])


def test_subgrids_grow_to_the_whole_space_and_keep_neighbours() -> None:
    whole = union()
    strategy = Subgrids(whole, lambda _: {}, 0)
    first = strategy.ask(60)
    assert {whole[index]["template"] for index in first} == {"one", "other"}
    within = fmean(len({*whole.neighbours(index)} & {*first}) for index in first)
    drawn = whole.sample(np.random.default_rng(0), 60)
    assert within > 1.5 * fmean(len({*whole.neighbours(index)} & {*drawn}) for index in drawn)
    rest = strategy.ask(len(whole))
    assert sorted(first + rest) == list(range(len(whole)))


@pytest.mark.parametrize("name", RECORDINGS)
def test_strategies_reach_their_bars_without_a_ranker(name: str) -> None:
    row = compared("cpu", name, ["random", "evolutionary", ALONE, ALONE_WARM], 12, 1)
    assert row.median(ALONE) <= AT_MOST * row.median("random")
    assert row.median(ALONE_WARM) <= AT_MOST * row.median(ALONE)
    assert row.median("evolutionary") < row.median("random")


def test_ranker_halves_the_trials_on_judged_shapes() -> None:
    rows = [
        compared(kind, name, [ALONE, GUIDED], seeds=5, most=1)
        for kind in JUDGED_ON
        for name in JUDGED_ON[kind]
    ]
    shares = [log(row.ninth(GUIDED) / row.ninth(ALONE)) for row in rows]
    assert fmean(shares) <= log(AT_MOST)


def test_guided_searches_of_k31_find_a_good_configuration_in_64_trials() -> None:
    for search in searches():
        guided, alone = (found_after(search, guided=way) for way in (True, False))
        assert len(guided) + len(alone) == len(search["runs"])
        assert search["configurations"] > 30_000
    [k31] = [search for search in searches() if search["workload"]["K"] == 31]
    found = [n for n in found_after(k31, guided=True) if n is not None]
    assert len(found) == 5
    assert max(found) <= 64


def test_strategies_page_lists_judged_shapes_first_and_draws_mean_curves() -> None:
    rows = [
        compared("cpu", "depthwise-7x7k5", ["random", "evolutionary", ALONE, GUIDED, WARM], 2, 16),
        compared("cpu", "conv1d-5665x6", ["random", "evolutionary", ALONE, GUIDED], 2, 16),
    ]
    text = markdown(rows, searches(), "a command", ["a device"], 2, "a.svg")
    chosen, judged = text.index("cpu depthwise-7x7k5"), text.index("cpu conv1d-5665x6")
    assert judged < text.index("## Shapes for choosing") < chosen
    curves = mean_curves(rows)
    assert set(curves) == {"random", "evolutionary", ALONE, GUIDED}
    assert all(
        curve == sorted(curve, reverse=True) and len(curve) == 16 for curve in curves.values()
    )
    drawn = picture("A title & more", curves)
    assert drawn.count("<polyline") == 4
    assert "A title &amp; more" in drawn
