"""The CUDA template for the weight gradient of signals with a kernel for each channel: its results,
emulated on a CPU, and the workloads that it serves."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.cuda.gradients.schedules import weight_rows as program
from templates.conv1d.cuda.gradients.weight_rows import CudaWeightRows, workspace
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import DERIVATIVE, render
from tests.templates import emulated
from tests.templates.devices import H200
from tests.templates.shapes import small_signals

BOUNDED = settings(max_examples=16, derandomize=True, deadline=None, database=None)


def gradient(work: Conv1dWorkload, **fields: Any) -> Conv1dWorkload:
    shape = work.model_dump(exclude={"max_error"}, exclude_none=True)
    plain = {"dtype": "float32", "residual": False}
    told = shape | plain | {"direction": "backward_weight"} | fields
    return Conv1dWorkload.model_validate(told)


def assert_right(work: Conv1dWorkload, config: dict[str, Any], apart: int) -> None:
    """Emulate a configuration and check it against the reference, on inputs that begin ``apart``
    elements behind a vector's boundary."""
    text = render(program.substitutions(work, config), DERIVATIVE, program.SOURCE)
    launches, floats = program.launches(work, config), workspace(work, config)
    assert emulated.error(work, text, launches, floats, apart) <= 2e-6


@st.composite
def signals(draw: st.DrawFn) -> Conv1dWorkload:
    """Draw a gradient of any signals with a kernel for each channel, or of causal ones whose rows
    are whole vectors."""
    if draw(st.booleans()):
        return gradient(
            draw(small_signals(draw(st.integers(1, 90))).filter(lambda w: not w.groups))
        )
    M, N = 4 * draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 4, 7, 31]))
    shape = {"M": M, "N": N, "B": draw(st.integers(1, 3)), "C": draw(st.integers(1, 3))}
    return gradient(Conv1dWorkload(**shape, mode="causal", bias=draw(st.booleans())))


@BOUNDED
@given(data=st.data(), apart=st.sampled_from([0, 0, 1]))
def test_any_configuration_is_right(data: st.DataObject, apart: int) -> None:
    work = data.draw(signals())
    space = CudaWeightRows().space(work, H200)
    assert CudaWeightRows().default(work, H200) in space
    assert_right(work, space[data.draw(st.integers(0, len(space) - 1))], apart)


@pytest.mark.parametrize("apart", [0, 1])
def test_weight_rows_is_right_for_every_vector_length(apart: int) -> None:
    work = gradient(Conv1dWorkload(M=512, N=4, B=2, C=3, mode="causal", bias=True))
    space = CudaWeightRows().space(work, H200)
    for vector in (1, 2, 4):
        config = next(
            c for c in space if (c["vector"], c["batch"], c["threads"]) == (vector, 2, 64)
        )
        assert_right(work, config, apart)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, True),
        ({"F": 6, "stride": 3, "dilation": 2, "activation": "silu"}, True),
        ({"groups": 1}, False),
        ({"layout": "NWC"}, False),  # depthwise convolution's templates serve it
        ({"layout": "NWC", "N": 400, "dilation": 3}, True),
        ({"direction": "backward_input"}, False),
    ],
    ids=str,
)
def test_weight_rows_serves_signals_with_a_kernel_for_each_channel(
    fields: dict[str, Any], serves: bool
) -> None:
    work = gradient(Conv1dWorkload(M=512, N=4, B=2, C=3, mode="causal"), **fields)
    found = {template.name for template in templates.templates_for(work, H200)}
    assert ("weight_rows" in found) == serves
