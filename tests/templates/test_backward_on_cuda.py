"""All gradients of signals apart in one program on CUDA: what it computes, emulated on a CPU, what
it takes, and what it serves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.cuda.gradients.backward_rows import CudaBackwardRows, count, workspace
from templates.conv1d.cuda.gradients.schedules import backward_rows as program
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.written import DERIVATIVE, filled
from templates.naive import naive_on
from tests.templates import emulated
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import H200, T4
from tests.templates.shapes import small_backward
from tuner.measure.cases import draw
from tuner.measure.check import relative_error

BOUNDED = settings(max_examples=12, derandomize=True, deadline=None, database=None)
TEMPLATE = CudaBackwardRows()
LAYER: dict[str, Any] = {"M": 1024, "N": 4, "B": 2, "C": 3, "mode": "causal", "kind": "correlate"}
SILU: dict[str, Any] = {"activation": "silu", "bias": True}


def backward(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | {"direction": "backward"} | fields)


def assert_right(
    work: Conv1dWorkload, config: dict[str, Any], apart: int = 0, name: str = "normal"
) -> None:
    """With tensors so many elements from a vector's boundary."""
    values = []
    for argument, array in zip(work.given, draw(work, name, np.random.default_rng(1)), strict=True):
        memory = np.empty(argument.elements + apart, array.dtype)[apart:]
        values.append(memory.reshape(argument.shape))
        values[-1][...] = array
    text = filled(program.numbers(work, config), DERIVATIVE, program.SOURCE)
    launches, floats = program.launches(work, config), workspace(work, config)
    found = emulated.outputs(work, text, launches, values, floats)
    exact = templates.operator("conv1d").references(work, *values)
    assert len(found) == len(exact)
    for y, reference in zip(found, exact.values(), strict=True):
        assert relative_error(y, reference) <= work.max_error


@BOUNDED
@given(data=st.data(), apart=st.sampled_from([0, 0, 1]))
def test_any_configuration_is_right(data: st.DataObject, apart: int) -> None:
    fields = data.draw(small_backward()).model_dump(exclude={"max_error"}, exclude_none=True)
    if fields["dtype"] == "float16":  # of which there is no emulation
        fields["dtype"] = "bfloat16"
    work = Conv1dWorkload.model_validate(fields | {"layout": "NCW"})
    if not TEMPLATE.applies(work, H200):
        assert work.span - 1 > (8 if work.dtype == "float32" else 16)
        return
    space = TEMPLATE.space(work, H200)
    assert TEMPLATE.default(work, H200) in space
    assert_right(work, space[data.draw(st.integers(0, len(space) - 1))], apart)


@pytest.mark.parametrize(
    ("fields", "chosen", "parts"),
    [
        ({"M": 2048, "B": 1, "C": 1, **SILU}, {"steps": 16, "ahead": 3, "vector": 4}, 1),
        ({"M": 2048, **SILU}, {"steps": 4, "ahead": 2, "vector": 4}, 8),
        ({"M": 2048, **SILU, "dtype": "bfloat16"}, {"steps": 4, "ahead": 1, "vector": 8}, 4),
        ({"B": 70, "C": 1, "M": 8, "bias": True}, {"steps": 4, "ahead": 1, "vector": 4}, 70),
        ({"M": 1028, "mode": "full", **SILU}, {"steps": 4, "ahead": 2, "vector": 4}, 6),
    ],
    ids=str,
)
def test_tiles_parts_and_what_meets_between_them(
    fields: dict[str, Any], chosen: dict[str, int], parts: int
) -> None:
    work = backward(**fields)
    config = TEMPLATE.default(work, H200) | chosen | {"threads": 64}
    assert config in TEMPLATE.space(work, H200)
    assert count(work, config) == parts
    for name in ("normal", "positive", "decaying"):
        assert_right(work, config, 0, name)
    assert_right(work, config, 1)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("fields", [{"dtype": "bfloat16", **SILU}, {"M": 1001, "dtype": "float16"}])
def test_it_becomes_a_cubin_that_spills_nothing(fields: dict[str, Any], limits: Any) -> None:
    work = backward(**fields)
    chosen = {"ahead": 1, "vector": 8, "threads": 128, "resident": 6, "steps": 4}
    config = TEMPLATE.default(work, limits) | chosen
    assert config in TEMPLATE.space(work, limits)
    registers, stack = registers_and_stack(
        cubin(source(TEMPLATE, work, config, limits), limits.arch)
    )
    assert (registers <= 80, stack) == (True, 0)


def test_a_gpus_naive_program_becomes_a_cubin() -> None:
    work = backward(activation="gelu", bias=True, dtype="bfloat16", layout="NWC")
    naive: Any = naive_on("cuda")
    assert cubin(source(naive, work, {}, T4), T4.arch)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, True),
        ({"N": 9, "mode": "same", "activation": "gelu"}, True),
        ({"N": 9, "dilation": 2}, False),
        ({"N": 9, "dilation": 2, "dtype": "bfloat16"}, True),
        ({"layout": "NWC"}, False),
        ({"direction": "backward_weight"}, False),
    ],
    ids=str,
)
def test_it_serves_signals_apart(fields: dict[str, Any], serves: bool) -> None:
    found = {template.name for template in templates.templates_for(backward(**fields), H200)}
    assert ("backward_rows" in found) == serves
