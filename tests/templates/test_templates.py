"""Promises of every template, checked without building anything: its default, features, limits,
name and version."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.cpu.fft import CpuFft
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.cpu.tiled import CpuTiled
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.errors import InvalidConfig
from templates.limits import DeviceLimits
from templates.workload import Workload
from tests.templates.devices import CPU, H200, LIMITS
from tests.templates.shapes import WORKLOADS

Case = tuple[Any, Workload, DeviceLimits]
BOUNDED = settings(max_examples=150, deadline=None)
LONG_KERNEL = Conv1dWorkload(M=2**24, N=2**16, mode="full")


@st.composite
def served(draw: st.DrawFn) -> Case:
    """Draw a template, a workload that it serves and the limits of a device that it serves."""
    workload = draw(WORKLOADS)
    limits = LIMITS[draw(st.sampled_from(sorted(LIMITS)))]
    found = templates.templates_for(workload, limits)
    assert found, "nothing serves a legal workload"
    return draw(st.sampled_from(found)), workload, limits


@BOUNDED
@given(served())
def test_the_default_is_in_the_space(case: Case) -> None:
    template, workload, limits = case
    assert template.default(workload, limits) in template.space(workload, limits)


@BOUNDED
@given(served(), st.integers(0, 2**32))
def test_features_have_the_same_names_and_are_finite(case: Case, seed: int) -> None:
    template, workload, limits = case
    space = template.space(workload, limits)
    names = set(template.features(workload, template.default(workload, limits), limits))
    for index in space.sample(np.random.default_rng(seed), 20):
        features = template.features(workload, space[index], limits)
        assert set(features) == names
        assert all(math.isfinite(value) and value >= 0 for value in features.values())


@BOUNDED
@given(served(), st.integers(0, 2**32))
@example((CpuFft(), LONG_KERNEL, CPU), 0)
def test_no_configuration_asks_for_more_than_the_device_has(case: Case, seed: int) -> None:
    template, workload, limits = case
    space = template.space(workload, limits)
    for index in space.sample(np.random.default_rng(seed), 20):
        features = template.features(workload, space[index], limits)
        if limits.kind == "cuda":
            assert features["shared_bytes"] <= limits.shared_memory_opt_in
            assert features["registers"] <= 255
            assert features["blocks"] < 2**31
        else:
            assert features["threads"] <= limits.units
            assert features["tile_bytes"] <= 2**24, "every thread stages as much"


@pytest.mark.parametrize("operator", templates.operators(), ids=lambda operator: operator.name)
def test_names_and_versions_identify_a_template(operator: templates.Operator) -> None:
    assert len({(each.kind, each.name) for each in operator.templates}) == len(operator.templates)
    for each in operator.templates:
        assert each.version >= 1


@pytest.mark.parametrize("suffix", ["a", "f"])
@pytest.mark.parametrize("operator", templates.operators(), ids=lambda operator: operator.name)
def test_suffix_of_an_architecture_does_not_change_the_space(
    operator: templates.Operator, suffix: str
) -> None:
    workload = operator.workload.model_validate(operator.example)
    specific = replace(H200, arch=H200.arch + suffix)
    for template in templates.templates_for(workload, H200):
        space = template.space(workload, specific)
        assert space.knobs == template.space(workload, H200).knobs


def test_refusal_says_how_many_vectors_of_sums_are_allowed() -> None:
    workload = DepthwiseConv2dWorkload(B=1, C=1, H=64, W=64, K=3)
    space = CpuTiled().space(workload, CPU)
    config = CpuTiled().default(workload, CPU) | {"rows": 8}
    assert config | {"vectors": 2} in space
    with pytest.raises(InvalidConfig, match="at most 16 vectors of sums"):
        space.index(config | {"vectors": 3})
