"""The CUDA templates of direction backward, emulated on a CPU: their results, their registers and
stack, and the workloads that they serve."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.cuda.gradients import backward_channels, backward_rows
from templates.conv1d.cuda.gradients.backward_channels import CudaBackwardChannels
from templates.conv1d.cuda.gradients.backward_rows import CudaBackwardRows
from templates.conv1d.cuda.gradients.schedules import backward_channels as program_of_channels
from templates.conv1d.cuda.gradients.schedules import backward_rows as program_of_rows
from templates.conv1d.cuda.gradients.schedules.backward import SLOPE
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import render
from templates.naive import naive_on
from tests.templates import emulated
from tests.templates.cuda_source import cubin, source, taken
from tests.templates.devices import H200, T4
from tests.templates.shapes import small_backward
from tuner.measure.cases import draw
from tuner.measure.check import relative_error

BOUNDED = settings(max_examples=20, derandomize=True, deadline=None, database=None)
ROWS, CHANNELS = CudaBackwardRows(), CudaBackwardChannels()
MODULES: Any = {
    "NCW": (ROWS, backward_rows, program_of_rows),
    "NWC": (CHANNELS, backward_channels, program_of_channels),
}
LAYER: dict[str, Any] = {"M": 1024, "N": 4, "B": 2, "C": 3, "mode": "causal", "kind": "correlate"}
LAST: dict[str, Any] = {"layout": "NWC", "C": 36}
SILU: dict[str, Any] = {"activation": "silu", "bias": True}


def backward(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | {"direction": "backward"} | fields)


def assert_right(
    work: Conv1dWorkload, config: dict[str, Any], apart: int = 0, name: str = "normal"
) -> None:
    """Emulate a configuration on one case and check every gradient against the reference.

    The inputs begin ``apart`` elements behind a vector's boundary; ``name`` is that of the case.
    """
    values = []
    for argument, array in zip(
        work.inputs, draw(work, name, np.random.default_rng(1)), strict=True
    ):
        memory = np.empty(argument.elements + apart, array.dtype)[apart:]
        values.append(memory.reshape(argument.shape))
        values[-1][...] = array
    _, room, program = MODULES[work.layout]
    text = render(program.substitutions(work, config), *SLOPE, program.SOURCE)
    launches, floats = program.launches(work, config), room.workspace(work, config)
    found = emulated.outputs(work, text, launches, values, floats)
    exact = templates.operator("conv1d").references(work, *values)
    assert len(found) == len(exact)
    for y, reference in zip(found, exact.values(), strict=True):
        assert relative_error(y, reference) <= work.max_error


@BOUNDED
@given(data=st.data(), apart=st.sampled_from([0, 0, 1]))
def test_any_configuration_is_right(data: st.DataObject, apart: int) -> None:
    fields = data.draw(small_backward()).model_dump(exclude={"max_error"}, exclude_none=True)
    work = Conv1dWorkload.model_validate(fields)
    template, _, _ = MODULES[work.layout]
    if not template.applies(work, H200):
        beyond = {"NCW": 8 if work.dtype == "float32" else 16, "NWC": 32}
        assert work.span - 1 > beyond[work.layout]
        return
    space = template.space(work, H200)
    assert template.default(work, H200) in space
    assert_right(work, space[data.draw(st.integers(0, len(space) - 1))], apart)


@pytest.mark.parametrize(
    ("fields", "chosen", "parts"),
    [
        ({"M": 2048, "B": 1, "C": 1, **SILU}, {"steps": 16, "ahead": 3, "vector": 4}, 1),
        ({"M": 2048, **SILU}, {"steps": 4, "ahead": 2, "vector": 4}, 8),
        ({"M": 2048, **SILU, "dtype": "bfloat16"}, {"steps": 4, "ahead": 1, "vector": 8}, 4),
        ({"B": 70, "C": 1, "M": 8, "bias": True}, {"steps": 4, "ahead": 1, "vector": 4}, 70),
        ({"M": 1028, "mode": "full", **SILU}, {"steps": 4, "ahead": 2, "vector": 4}, 6),
        (LAST | {"M": 1001, **SILU}, {"channels": 2, "rings": 1, "places": 64}, 32),
        (LAST | {"B": 1, "M": 33}, {"channels": 4, "rings": 4, "places": 32}, 2),
        (LAST | {"B": 1, "M": 64, **SILU, "dtype": "bfloat16"}, {"channels": 2, "places": 64}, 1),
    ],
    ids=str,
)
def test_gradients_are_right_across_the_bounds_of_tiles_and_parts(
    fields: dict[str, Any], chosen: dict[str, int], parts: int
) -> None:
    """Gradients are right if a channel's sums are divided into ``parts`` and taps reach across the
    bounds of tiles, on tensors at and beside a vector's boundary."""
    work = backward(**fields)
    template, room, _ = MODULES[work.layout]
    config = template.default(work, H200) | chosen | {"threads": 64}
    assert config in template.space(work, H200)
    assert room.parts_of_channel(work, config) == parts
    for name in ("normal", "positive", "decaying"):
        assert_right(work, config, 0, name)
    assert_right(work, config, 1)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize(
    ("fields", "chosen", "most"),
    [
        ({"dtype": "bfloat16", **SILU}, {"ahead": 1, "vector": 8, "resident": 6, "steps": 4}, 80),
        ({"M": 1001, "dtype": "float16"}, {"ahead": 1, "vector": 8, "resident": 6, "steps": 4}, 80),
        (LAST | {"dtype": "bfloat16", **SILU}, {"channels": 2, "rings": 1, "resident": 6}, 80),
        (LAST | {"dtype": "float16"}, {"channels": 4, "rings": 1, "resident": 4}, 128),
    ],
)
def test_backward_kernels_spill_no_registers(
    fields: dict[str, Any], chosen: dict[str, int], most: int, limits: Any
) -> None:
    work = backward(**fields)
    template, _, _ = MODULES[work.layout]
    config = template.default(work, limits) | chosen | {"threads": 128}
    assert config in template.space(work, limits)
    registers, stack = taken(template, work, config, limits)
    assert (registers <= most, stack) == (True, 0)


def test_naive_backward_program_compiles_for_a_gpu() -> None:
    work = backward(activation="gelu", bias=True, dtype="bfloat16", layout="NWC")
    naive: Any = naive_on("cuda")
    assert cubin(source(naive, work, {}, T4), T4.arch)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, "backward_rows"),
        ({"N": 9, "mode": "same", "activation": "gelu"}, "backward_rows"),
        ({"N": 9, "dilation": 2}, None),
        ({"N": 9, "dilation": 2, "dtype": "bfloat16"}, "backward_rows"),
        ({"layout": "NWC"}, "backward_channels"),
        ({"layout": "NWC", "N": 9, "dilation": 2}, "backward_channels"),
        ({"layout": "NWC", "N": 31, "activation": "gelu"}, None),
        ({"direction": "backward_weight"}, None),
    ],
    ids=str,
)
def test_backward_template_depends_on_layout_reach_and_dtype(
    fields: dict[str, Any], serves: str | None
) -> None:
    found = {template.name for template in templates.templates_for(backward(**fields), H200)}
    ours = found & {"backward_rows", "backward_channels"}
    assert ours == ({serves} if serves else set())
