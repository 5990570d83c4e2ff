"""The trained rankers that the project ships: the traits that they use, and how they guide
searches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import templates
from templates import operator, operators
from templates.limits import DeviceLimits
from templates.workload import Workload
from tests.templates.devices import CPU, H200, T4
from tuner import search
from tuner.device.device import Device
from tuner.plan.plan import Plan
from tuner.plan.ranker import Ranker, pretrained
from tuner.plan.traits import config_traits, floor_us, shape_traits
from tuner.search.diversify import kind_of

SHAPES: dict[str, dict[str, Any]] = {
    "conv1d": {"M": 16384, "N": 32},
    "depthwise_conv2d": {"B": 2, "C": 32, "H": 28, "W": 28, "K": 5},
}


def shape(name: str) -> Workload:
    return operator(name).workload.model_validate(SHAPES[name])


def plan(name: str, limits: DeviceLimits, strategy: str = search.PREDICTED) -> Plan:
    device = Device(limits.kind, "a device", limits.arch, 0, "", limits, {})
    return Plan(shape(name), device, strategy, 0)


@pytest.mark.parametrize("limits", [CPU, replace(CPU, vector_bytes=32), H200, T4])
@pytest.mark.parametrize("name", SHAPES)
def test_plan_asks_first_for_configurations_that_the_ranker_expects_fastest(
    name: str, limits: DeviceLimits
) -> None:
    ranker = pretrained(name, limits.kind)
    assert ranker is not None
    made = plan(name, limits)
    asked = made.ask(8)
    assert len({str(config) for config in asked}) == 8
    others = [made.space[index] for index in made.space.sample(np.random.default_rng(1), 200)]
    features = made.search.featurize
    expected = ranker.expected(made.workload, limits, features, [*asked, *others])
    assert np.isfinite(expected).all()
    assert expected[0] <= expected.min()
    times = {made.space.index(config): x for config, x in zip(asked, expected, strict=False)}
    for kind in {kind_of(config) for config in asked}:
        alike = [index for index in times if kind_of(made.space[index]) == kind]
        assert alike == sorted(alike, key=lambda index: times[index])
        assert not {near for index in alike for near in made.space.neighbours(index)} & {*alike}


def test_each_operator_and_kind_has_a_ranker() -> None:
    for each in operators():
        for kind in ("cpu", "cuda"):
            found = pretrained(each.name, kind)
            assert found is not None
            assert "trials of" in found.trained_on
    assert pretrained("conv3d", "cpu") is None


def test_loaded_ranker_equals_the_saved_one(tmp_path: Path) -> None:
    ranker = pretrained("conv1d", "cpu")
    assert ranker is not None
    ranker.save(tmp_path / "again.ubj.gz")
    again = Ranker.load(tmp_path / "again.ubj.gz")
    configs = plan("conv1d", CPU, "random").ask(20)
    derive = plan("conv1d", CPU).search.featurize
    one, other = (each.expected(shape("conv1d"), CPU, derive, configs) for each in (ranker, again))
    assert one.tolist() == other.tolist()
    assert again.trained_on == ranker.trained_on


def test_traits_are_numbers_by_name() -> None:
    config = {"template": "direct", "lanes": 8, "tile": [4, 2], "staged": True, "late": None}
    assert config_traits(config, {"waves": 2.0}) == {
        "knob:template=direct": 1.0,
        "knob:lanes": 8.0,
        "knob:tile0": 4.0,
        "knob:tile1": 2.0,
        "knob:staged": 1.0,
        "derived:waves": 2.0,
    }
    found = shape_traits(shape("conv1d"), H200)
    assert (found["shape:M"], found["shape:mode=full"]) == (16384.0, 1.0)
    assert (found["device:units"], found["taps"]) == (132.0, 32.0)


def test_floor_is_the_larger_of_compute_time_and_memory_time() -> None:
    workload = templates.operator("conv1d").workload.model_validate({"M": 1 << 20, "N": 16})
    known = replace(H200, peak_flops=6e13, peak_bandwidth=4e12)
    assert floor_us(workload, known) == pytest.approx(1e6 * workload.bytes / 4e12)
    slow = replace(known, peak_flops=1e12)
    assert floor_us(workload, slow) == pytest.approx(1e6 * workload.flops / 1e12)
    assert floor_us(shape("conv1d"), known) == 0.7
    assert 0.7 < floor_us(workload, H200) < 100


@pytest.mark.parametrize("name", SHAPES)
def test_first_batch_of_xgb_has_the_rankers_first_choice(name: str) -> None:
    asked = plan(name, H200, "xgb").ask(8)
    best = plan(name, H200).ask(1)
    assert best[0] in asked


def of_layer(direction: str, limits: DeviceLimits = H200, **fields: Any) -> Plan:
    shape = {"B": 8, "C": 32, "H": 28, "W": 28, "K": 7, "layout": "NHWC", "dtype": "bfloat16"}
    told = shape | {"direction": direction} | fields
    workload = operator("depthwise_conv2d").workload.model_validate(told)
    return Plan(workload, Device(limits.kind, "a device", limits.arch, 0, "", limits, {}), "xgb", 0)


def test_xgb_search_has_a_ranker_and_random_search_has_none() -> None:
    assert plan("depthwise_conv2d", H200, "xgb").search.prior is not None
    assert plan("depthwise_conv2d", H200, "random").search.prior is None


@pytest.mark.parametrize("fields", [{}, {"stride": 2}, {"dtype": "float32"}, {"bias": True}])
def test_search_for_a_weight_gradient_asks_for_what_its_ranker_expects_fast(
    fields: dict[str, Any],
) -> None:
    made = of_layer("backward_weight", **fields)
    asked = made.ask(16)
    prior = made.search.prior
    assert prior is not None
    others = [made.space[index] for index in made.space.sample(np.random.default_rng(1), 200)]
    assert min(prior(asked)) <= min(prior(others))
    assert np.median(prior(asked)) < np.median(prior(others))


def test_input_gradient_is_ranked_as_its_equivalent_forward_convolution() -> None:
    assert of_layer("backward_input").ask(16) == of_layer("forward").ask(16)
    turned = of_layer("backward_input", padding=[0, 1, 2, 3])
    forward = of_layer("forward", H=24, W=26, padding=[6, 5, 4, 3])
    assert turned.ask(8) == forward.ask(8)


def test_search_has_no_ranker_if_none_was_trained_for_its_templates() -> None:
    assert of_layer("backward_weight", CPU).search.prior is None
    signals = {"B": 4, "C": 8, "M": 512, "N": 4, "mode": "causal", "kind": "correlate"}
    signals |= {"direction": "backward_weight"}
    gradient = operator("conv1d").workload.model_validate(signals)
    device = Device(H200.kind, "a device", H200.arch, 0, "", H200, {})
    assert Plan(gradient, device, "xgb", 0).search.prior is None
    assert pretrained("conv1d", "cuda", gradients=True) is None
    found = pretrained("depthwise_conv2d", "cuda", gradients=True)
    assert found is not None
    assert found.knows("weight_matrices")
    assert not found.knows("channels_toeplitz")
