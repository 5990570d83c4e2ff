"""The template for dense channels on tensor cores: what it computes, emulated on a CPU, and how it
keeps sums of many products exact although tensor cores truncate."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from templates.conv1d.cuda.implicit import CudaImplicit
from templates.conv1d.cuda.implicit_layout import (
    blocks,
    chain,
    shared_words,
    thread_registers,
    threads,
)
from templates.conv1d.cuda.schedules import implicit
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, render
from templates.limits import DeviceLimits
from tests.templates import emulated
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4
from tuner.measure.check import relative_error

TEMPLATE = CudaImplicit()
PRODUCTS = Path(__file__).with_name("emulated_products.h")
LAYER = {"C": 32, "F": 16, "M": 90, "N": 64, "groups": 1, "mode": "valid", "kind": "correlate"}


def layer(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields)


def error(work: Conv1dWorkload, config: dict[str, Any]) -> float:
    """Return the relative error of a configuration, emulated, whose products are all positive."""
    sources = implicit.SIGNAL, implicit.OUTPUTS, implicit.LAYOUT, implicit.SCALE, implicit.SOURCE
    text = render(implicit.substitutions(work, config), *sources)
    rng = np.random.default_rng(0)
    given = [rng.uniform(0.5, 1.5, each.shape).astype(each.dtype) for each in work.inputs]
    grid = blocks(work, config), threads(config), shared_words(work, config)
    launch = Launch("conv1d_implicit", *grid)
    bias = f"constexpr bool HAS_BIAS = {int(work.bias)};\n"
    output = emulated.run(work, PRODUCTS.read_text() + bias + text, [launch], given, 0, 2)
    return relative_error(output, reference(work, *given))


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({}, {"channels": 32, "taps": 16}),
        ({}, {"channels": 16, "taps": 16, "fragments": 2, "stages": 2}),
        ({"C": 1, "F": 20, "N": 2100, "stride": 3, "M": 2200}, {"fragments": 2}),
        ({"C": 35, "F": 40, "N": 50, "dilation": 3, "M": 190, "kind": "convolve"}, {}),
        ({"layout": "NWC", "bias": True, "residual": True}, {"taps": 16}),
    ],
    ids=str,
)
def test_sums_of_many_products_are_exact(fields: dict[str, Any], knobs: dict[str, Any]) -> None:
    """Tensor cores truncate: if they summed all products, errors would be 6e-6 and more."""
    work = layer(**fields)
    config = TEMPLATE.default(work, H200) | knobs
    assert config in TEMPLATE.space(work, H200)
    assert chain(work, config) > 0
    assert error(work, config) < 2e-6


@pytest.mark.parametrize(
    ("fields", "adds"),
    [
        ({"C": 64, "N": 3}, False),
        ({"C": 512, "N": 3}, True),
        ({"C": 512, "N": 3, "max_error": 1e-4}, False),
        ({"C": 512, "N": 3, "dtype": "float16"}, False),
    ],
    ids=str,
)
def test_tensor_cores_sum_in_short_chains_only_if_max_error_needs_it(
    fields: dict[str, Any], adds: bool
) -> None:
    work = layer(**fields)
    assert (chain(work, TEMPLATE.default(work, H200)) > 0) is adds


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
def test_implicit_with_chains_spills_no_registers(limits: DeviceLimits) -> None:
    work = layer(C=256, F=256, M=6400, N=11)
    large = {"filter_tiles": 2, "position_tiles": 8, "position_warps": 4, "fragments": 2}
    config = TEMPLATE.default(work, limits) | large
    assert config in TEMPLATE.space(work, limits)
    registers, stack = taken(TEMPLATE, work, config, limits)
    assert (registers <= thread_registers(work, config), stack) == (True, 0)
