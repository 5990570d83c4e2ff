"""CUDA templates for gradients of dense channels: their results, emulated on a CPU, the workloads
that they serve, and their registers."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.cuda.gradients.input_products import CudaInputProducts
from templates.conv1d.cuda.gradients.schedules import products
from templates.conv1d.cuda.gradients.weight_products import CudaWeightProducts, workspace
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import in_numpy
from templates.kernels.cuda_source import render
from tests.templates import emulated
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import H200, T4
from tuner.measure.check import relative_error

HALVES = Path(__file__).with_name("emulated_products.h")
BOUNDED = settings(max_examples=8, derandomize=True, deadline=None, database=None)
BOTH: dict[str, Any] = {
    "backward_input": CudaInputProducts(),
    "backward_weight": CudaWeightProducts(),
}
LAYER = {"B": 2, "C": 6, "F": 4, "groups": 1, "M": 40, "N": 5, "mode": "same"}


def gradient(direction: str, **fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields | {"direction": direction})


@st.composite
def layers(draw: st.DrawFn, dtype: str) -> dict[str, Any]:
    """Draw the fields of a small layer; one sample, one filter, and kernels and dilations that
    reach beyond the signal are frequent."""
    M, N = draw(st.sampled_from([1, 2, 31, 61])), draw(st.sampled_from([1, 2, 3, 4, 7, 17]))
    step = draw(st.sampled_from([1, 1, 2, 3, M + 1]))
    reach = (N - 1) * step
    return {
        "B": draw(st.integers(1, 3)),
        "C": draw(st.sampled_from([2, 3, 8, 37])),
        "F": draw(st.sampled_from([1, 2, 5, 35])),
        "M": M,
        "N": N,
        "dilation": step,
        "mode": None,
        "padding": (draw(st.integers(0, reach + 2)), draw(st.integers(reach, reach + 2))),
        "stride": draw(st.sampled_from([1, 2, 3, 6, 40])),
        "layout": draw(st.sampled_from(["NCW", "NWC"])),
        "kind": draw(st.sampled_from(["convolve", "correlate"])),
        "activation": draw(st.sampled_from(["none", "silu", "relu6"])),
        "bias": draw(st.booleans()),
        "dtype": dtype,
    }


def error(work: Conv1dWorkload, config: dict[str, Any], form: Any = np.asarray) -> float:
    """Return the relative error of an emulated configuration on ``form`` of normal inputs."""
    program = import_module(f"{products.__package__}.{config['template']}")
    text = render(program.substitutions(work, config), *products.sources(config, program.SOURCE))
    of_warps = config["multiplied_by"] == "warps"
    rng = np.random.default_rng(0)
    drawn = [form(rng.standard_normal(each.shape)) for each in work.inputs]
    given = [each.astype(in_numpy(work.dtype)) for each in drawn]
    output = emulated.run(
        work,
        (HALVES.read_text() if of_warps else "") + text,
        program.launches(work, config),
        given,
        workspace(work, config) if work.direction == "backward_weight" else 0,
    )
    return relative_error(output, templates.operator("conv1d").reference(work, *given), None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("direction", BOTH)
@BOUNDED
@given(data=st.data())
def test_any_configuration_is_right(direction: str, dtype: str, data: st.DataObject) -> None:
    work = gradient(direction, **data.draw(layers(dtype)))
    space = BOTH[direction].space(work, H200)
    assert BOTH[direction].default(work, H200) in space
    config = space[data.draw(st.integers(0, len(space) - 1))]
    assert error(work, config) <= (work.max_error if dtype == "bfloat16" else 2e-6)


def test_long_sums_keep_their_last_digits() -> None:
    """One float32 sum of 13,000 positive products would be off by 4e-6."""
    work = gradient("backward_input", B=1, C=3, F=709, M=61, N=19)
    space = CudaInputProducts().space(work, H200)
    config = next(c for c in space if c["own_rows"] * c["own_columns"] == 32)
    assert error(work, config, np.abs) <= 1e-6


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"stride": 3, "dilation": 50, "activation": "gelu", "layout": "NWC"}, True),
        ({"kind": "convolve", "padding": [7, 9], "mode": None}, True),
        ({"stride": 650}, True),
        ({"groups": None, "F": 6}, False),
    ],
    ids=str,
)
def test_product_templates_serve_only_gradients_of_dense_channels(
    fields: dict[str, Any], served: bool
) -> None:
    for direction, template in BOTH.items():
        for asked in ("forward", *BOTH):
            found = template.applies(gradient(asked, **fields), H200)
            assert found == (served and asked == direction)


@pytest.mark.parametrize(
    ("fields", "limits", "multiplied_by"),
    [
        ({"dtype": "float32"}, H200, "threads"),
        ({"dtype": "bfloat16"}, H200, "warps"),
        ({"dtype": "bfloat16", "activation": "silu"}, H200, "warps"),
        ({"dtype": "bfloat16", "activation": "silu", "max_error": 2e-3}, H200, "threads"),
        ({"dtype": "bfloat16"}, T4, "threads"),
        ({"dtype": "float16"}, T4, "warps"),
    ],
    ids=str,
)
@pytest.mark.parametrize("direction", BOTH)
def test_tensor_cores_multiply_16_bits_only_if_max_error_allows_it(
    direction: str, fields: dict[str, Any], limits: Any, multiplied_by: str
) -> None:
    """Warps multiply halves on tensor cores if the device can and the error stays within
    ``max_error``; otherwise threads multiply in float32."""
    config = BOTH[direction].default(gradient(direction, **fields), limits)
    assert config["multiplied_by"] == multiplied_by


@pytest.mark.parametrize("direction", BOTH)
def test_bfloat16_derivatives_use_no_approximate_tanh(direction: str) -> None:
    """Two roundings to bfloat16 take nearly all of the allowed error, 4e-3. With a derivative by
    the coarse instruction, the error on an H200 was 5e-3, in the case ``decaying``."""
    work = gradient(direction, dtype="bfloat16", activation="silu")
    text = source(BOTH[direction], work, BOTH[direction].default(work, H200), H200)
    code = re.sub(r"#if 0\b.*?#else", "", text, flags=re.DOTALL)
    assert "mma.sync" in code
    assert "tanh.approx" not in code


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("direction", BOTH)
def test_dense_gradients_keep_their_sums_in_registers(
    direction: str, dtype: str, limits: Any
) -> None:
    work = gradient(
        direction, B=8, C=256, F=192, M=500, dtype=dtype, stride=2, activation="silu", bias=True
    )
    space = BOTH[direction].space(work, limits)
    config = max(space, key=lambda c: c["own_rows"] * c["own_columns"])
    text = source(BOTH[direction], work, config, limits)
    assert ("mma.sync" in text) == (dtype == "float16")
    registers, stack = registers_and_stack(cubin(text, limits.arch))
    assert (registers <= 255, stack) == (True, 0)
