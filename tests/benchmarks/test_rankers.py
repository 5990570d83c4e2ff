"""The recordings from which rankers learn, and the shapes on which they are judged."""

from math import log
from pathlib import Path
from statistics import fmean

import pytest

from templates import operators
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.benchmarks.predicted import shapes
from tests.benchmarks.predicted.__main__ import KINDS
from tests.benchmarks.predicted.finalists import is_judged
from tests.benchmarks.predicted.judge import left_out, whole_space
from tests.benchmarks.predicted.known import known, known_gradients
from tests.benchmarks.predicted.train import told
from tests.benchmarks.predicted.trials import FOLDER, Recorded, Recordings
from tests.benchmarks.strategies.recording import load, names
from tuner.plan.ranker import pretrained

RECORDED = {path.name: Recordings.load(path) for path in sorted(FOLDER.glob("*.json.gz"))}


@pytest.mark.parametrize("kind", KINDS)
def test_rankers_are_not_judged_on_shapes_that_they_learnt_from(kind: str) -> None:
    learnt = {
        example.shape.shape.key: example.shape.shape
        for each in operators()
        for example in known(each.name, kind)
    }
    whole = {Recorded(load(name).operator, load(name).workload).shape.key for name in names()}
    assert len(learnt) > 40
    assert not whole & learnt.keys()
    of_pages = {each.shape.key for each in RECORDED[f"finalists-{kind}.json.gz"].shapes}
    assert of_pages
    assert not any(is_judged(learnt[key]) for key in of_pages)


@pytest.mark.parametrize("name", [name for name in RECORDED if "finalists" not in name])
def test_recordings_contain_only_drawn_shapes(name: str) -> None:
    recorded = RECORDED[name]
    draw = next((draw for draw in shapes.DRAWS if f"-{draw}." in name), "all")
    drawn = {each.key for each in shapes.to_learn(recorded.device["kind"], shapes.RECORDED, draw)}
    assert {each.shape.key for each in recorded.shapes} <= drawn
    assert sum(len(each.trials) for each in recorded.shapes) > 300
    assert (FOLDER / name).stat().st_size < 100_000


@pytest.mark.parametrize("draw", shapes.DRAWS)
def test_larger_draw_begins_with_the_same_shapes(draw: str) -> None:
    few, more = (shapes.to_learn("cpu", count, draw) for count in (3, 9))
    assert few == more[:3]
    assert len({each.key for each in more}) == 9


@pytest.mark.parametrize("kind", KINDS)
def test_rare_and_channels_draws_have_their_own_kinds_of_shapes(kind: str) -> None:
    rare, channels = (shapes.to_learn(kind, 40, draw) for draw in ("rare", "channels"))
    convolutions = [each for each in rare if isinstance(each, Conv1dWorkload)]
    layers = [each for each in rare if isinstance(each, DepthwiseConv2dWorkload)]
    assert (len(convolutions), len(layers)) == (20, 20)
    assert all(each.N >= 512 for each in convolutions)
    assert {each.stride for each in layers} == {2}
    each_channel = [each for each in channels if isinstance(each, Conv1dWorkload)]
    assert len(each_channel) == 40
    assert {(each.mode, each.N < 8) for each in each_channel} == {("causal", True)}
    assert {each.bias for each in each_channel} == {False, True}
    assert {each.activation for each in each_channel} == {"none", "silu", "gelu"}


@pytest.mark.parametrize("kind", KINDS)
def test_packaged_rankers_are_trained_on_the_stored_recordings(kind: str) -> None:
    """The packaged rankers say that they learnt from exactly the stored recordings. After new
    recordings, they must be trained again."""
    for each in operators():
        ranker = pretrained(each.name, kind)
        assert ranker is not None
        assert ranker.trained_on == told(known(each.name, kind))
        learnt = known_gradients(each.name, kind)
        of_gradients = pretrained(each.name, kind, gradients=True)
        assert (of_gradients.trained_on if of_gradients else "") == told(learnt)


def test_gradient_recordings_contain_only_gradient_templates() -> None:
    """Input gradients that are forward convolutions are left to the rankers of forward
    convolutions."""
    learnt = known_gradients("depthwise_conv2d", "cuda")
    assert len(learnt) > 30
    gradients = {
        template.name
        for each in operators()
        for template in each.templates
        if template.computes_gradients and template.kind == "cuda"
    }
    for example in learnt:
        workload = example.shape.shape
        assert not workload.is_forward
        assert workload.as_forward is None
        assert {config["template"] for config, _ in example.shape} <= gradients


def test_saving_recorded_trials_again_gives_the_same_file(tmp_path: Path) -> None:
    stored = RECORDED["znver4.json.gz"]
    stored.save(tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == (FOLDER / "znver4.json.gz").read_bytes()
    first = stored.shapes[0]
    assert Recorded.of(first.shape, list(first)) == first


def test_left_out_shape_is_judged_by_a_ranker_without_it() -> None:
    few = known("conv1d", "cpu")[:6]
    judged = left_out(few, 2)
    assert judged.workload == few[2].shape.workload
    assert judged.best_us == few[2].shape.best_us
    assert 0 < judged.reached[0] <= judged.reached[1] <= judged.reached[3] <= 1
    assert 0 < judged.chance[0] < judged.chance[3] <= 1


def test_first_eight_of_a_ranker_beat_eight_random_ones_on_whole_spaces() -> None:
    """Every time of these spaces is known, and no ranker has learnt from them."""
    gains = []
    for name in names():
        recorded = load(name)
        ranker = pretrained(recorded.operator, "cpu")
        assert ranker is not None
        judged = whole_space(ranker, recorded)
        gains.append(judged.reached[3] / judged.chance[3])
    assert fmean(map(log, gains)) > log(1.2)
