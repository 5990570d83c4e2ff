"""The CUDA template for the input gradient of signals with a kernel for each channel: its results,
emulated on a CPU, and the workloads that it serves."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.cuda.gradients.input_rows import CudaInputRows
from templates.conv1d.cuda.gradients.schedules import input_rows as program
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import DERIVATIVE, render
from tests.templates import emulated
from tests.templates.devices import H200
from tests.templates.shapes import small_signals

BOUNDED = settings(max_examples=16, derandomize=True, deadline=None, database=None)


def gradient(work: Conv1dWorkload, **fields: Any) -> Conv1dWorkload:
    shape = work.model_dump(exclude={"max_error"}, exclude_none=True)
    plain = {"dtype": "float32"}
    told = shape | plain | {"direction": "backward_input"} | fields
    return Conv1dWorkload.model_validate(told)


def assert_right(work: Conv1dWorkload, config: dict[str, Any], apart: int) -> None:
    """Emulate a configuration and check it against the reference, on inputs that begin ``apart``
    elements behind a vector's boundary."""
    text = render(program.substitutions(work, config), DERIVATIVE, program.SOURCE)
    assert emulated.error(work, text, [program.launch(work, config)], apart=apart) <= 2e-6


@BOUNDED
@given(data=st.data(), apart=st.sampled_from([0, 0, 1]))
def test_any_configuration_is_right(data: st.DataObject, apart: int) -> None:
    drawn = data.draw(small_signals(data.draw(st.integers(1, 90))).filter(lambda w: not w.groups))
    work = gradient(drawn)
    space = CudaInputRows().space(work, H200)
    assert CudaInputRows().default(work, H200) in space
    assert_right(work, space[data.draw(st.integers(0, len(space) - 1))], apart)


@pytest.mark.parametrize("mode", ["causal", "same", "valid"])
@pytest.mark.parametrize("apart", [0, 1])
def test_input_rows_is_right_for_every_vector_length(mode: str, apart: int) -> None:
    """The workload has no activation: it would not change how vectors are read and written."""
    work = gradient(Conv1dWorkload(M=128, N=5, B=2, C=3, F=6, mode=mode))
    space = CudaInputRows().space(work, H200)
    for vector in {config["vector"] for config in space}:
        assert_right(work, next(c for c in space if c["vector"] == vector), apart)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, False),  # forward templates serve it
        ({"activation": "silu"}, True),
        ({"F": 6, "stride": 3, "dilation": 2}, True),
        ({"groups": 1}, False),
        # depthwise convolution's templates serve this one
        ({"activation": "silu", "layout": "NWC"}, False),
        ({"stride": 5, "layout": "NWC"}, True),
        ({"N": 64, "layout": "NWC", "F": 6}, True),
    ],
    ids=str,
)
def test_input_rows_serves_only_gradients_that_no_other_template_serves(
    fields: dict[str, Any], serves: bool
) -> None:
    work = gradient(Conv1dWorkload(M=512, N=4, B=2, C=3, mode="causal"), **fields)
    found = {template.name for template in templates.templates_for(work, H200)}
    assert ("input_rows" in found) == serves
