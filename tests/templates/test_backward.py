"""Direction backward, all gradients in one program: its arguments, its limits, and that the CPU's
programs are right."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import templates
from templates.conv1d.cpu.backward import CpuBackward
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload
from templates.naive import naive_on
from templates.records.trace import Trace
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU, T4
from tests.templates.shapes import small_backward
from tuner.measure.check import check

BOUNDED = settings(max_examples=8, derandomize=True, deadline=None, database=None)
CAUSAL: dict[str, Any] = {"M": 700, "N": 4, "B": 2, "C": 3, "mode": "causal"}


def backward(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(CAUSAL | {"direction": "backward"} | fields)


def test_backward_workload_has_an_output_for_each_gradient() -> None:
    work = backward(bias=True, activation="silu")
    assert [(each.name, each.symbol, each.role) for each in work.arguments] == [
        ("input", "x", "input"),
        ("output_gradient", "g", "gradient"),
        ("weight", "w", "weight"),
        ("bias", "b", "bias"),
        ("input_gradient", "dx", "output"),
        ("weight_gradient", "dw", "output"),
        ("bias_gradient", "db", "output"),
    ]
    x, g, w, b = work.inputs
    assert [each.shape for each in work.outputs] == [x.shape, w.shape, b.shape]
    assert g.shape == work.with_direction("forward").output.shape
    without = backward(bias=True)  # without an activation no gradient depends on the sums
    assert [each.symbol for each in without.arguments] == ["x", "g", "w", "dx", "dw", "db"]
    assert [each.symbol for each in backward().outputs] == ["dx", "dw"]
    assert work.bytes == sum(each.bytes for each in work.arguments)
    assert work.flops == 3 * work.with_direction("forward").flops
    assert without.flops == 2 * without.with_direction("forward").flops
    assert json.loads(work.key)["direction"] == "backward"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"groups": 1}, "groups"),
        ({"F": 6}, "F"),
        ({"stride": 2}, "stride"),
        ({"activation": "relu"}, "activation"),
        ({"activation": "silu", "residual": True}, "residual"),
    ],
)
def test_backward_workload_refuses_unsupported_fields_with_the_way_out(
    fields: dict[str, Any], field: str
) -> None:
    """Dense or multiplied channels, strides, other activations and residuals are refused with the
    advice to take the two other directions; depthwise_conv2d has no direction backward."""
    with pytest.raises(ValidationError, match="take backward_input and backward_weight") as error:
        backward(**fields)
    assert error.value.errors()[0]["ctx"]["field"] == field
    with pytest.raises(ValidationError, match="'backward_input' or 'backward_weight'"):
        templates.operator("depthwise_conv2d").workload.model_validate(
            {"B": 1, "C": 2, "H": 9, "W": 9, "K": 3, "direction": "backward"}
        )


@settings(max_examples=40, deadline=None)
@given(work=small_backward(), seed=st.integers(0, 99))
def test_backward_reference_equals_a_central_difference(work: Conv1dWorkload, seed: int) -> None:
    """The reference is compared with a directional derivative, a central difference in float64."""
    rng, step = np.random.default_rng(seed), 1e-5
    forward = work.with_direction("forward")
    at = [rng.standard_normal(each.shape) for each in forward.inputs]
    by = [rng.standard_normal(each.shape) for each in forward.inputs]
    g = rng.standard_normal(forward.output.shape)
    ahead, behind = (
        np.sum(g * reference(forward, *(a + s * b for a, b in zip(at, by, strict=True))))
        for s in (step, -step)
    )
    values = dict(zip((each.name for each in forward.inputs), at, strict=True))
    found = reference(work, *(values.get(each.name, g) for each in work.inputs))
    slope = sum(np.sum(gradient * b) for gradient, b in zip(found, by, strict=True))
    scale = sum(np.abs(gradient * b).sum() for gradient, b in zip(found, by, strict=True))
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, abs=1e-7 * (1 + scale))


@BOUNDED
@given(data=st.data())
def test_any_configuration_for_a_cpu_is_right(data: st.DataObject) -> None:
    work = data.draw(small_backward())
    (template,) = templates.templates_for(work, CPU)
    assert isinstance(template, CpuBackward)
    space = template.space(work, CPU)
    assert template.default(work, CPU) in space
    config = space[data.draw(st.integers(0, len(space) - 1))]
    assert template.features(work, config, CPU)
    check(Compiled(template, work, config).errors, cases_of(work), work.max_error)


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_backward_in_tiles_and_parts_is_right_and_bitwise_reproducible(layout: str) -> None:
    work = backward(layout=layout, M=1237, N=9, bias=True, activation="silu", dilation=3)
    template = CpuBackward()
    space = template.space(work, CPU)
    config = max(space, key=lambda c: (c["parts"], c["threading"], -c["places"], c["lanes"]))
    assert config["parts"] > 1
    known, program = cases_of(work), Compiled(template, work, config)
    check(program.errors, known, work.max_error)
    first, second = (
        [each.tobytes() for each in program.outputs(*known[0].inputs)] for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("fields", [{}, {"activation": "gelu", "bias": True, "dtype": "bfloat16"}])
def test_naive_backward_program_is_right(fields: dict[str, Any]) -> None:
    work = backward(M=41, N=5, mode="same", dilation=2, **fields)
    naive: Any = naive_on("cpu")
    check(Compiled(naive, work, {}).errors, cases_of(work), work.max_error)
    function = Trace().computation(work, {})  # MetaSchedule's search begins with this program
    assert len(function.params) == len(work.arguments)


def test_backward_with_many_taps_has_no_template() -> None:
    for limits in (CPU, T4):
        assert templates.templates_for(backward(N=5), limits)
        assert not templates.templates_for(backward(N=65), limits)
