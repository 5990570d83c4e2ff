"""Directions backward_input and backward_weight: their arguments, their operations, and that every
program is right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.workload import MAX_INPUT, Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.gradients import WithGradients
from templates.naive import naive_on
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.cuda_source import cubin, source
from tests.templates.devices import CPU, H200, T4
from tests.templates.shapes import SMALL, small_gradients
from tuner.measure.check import check

BOUNDED = settings(max_examples=25, derandomize=True, deadline=None, database=None)
SHAPES: dict[str, dict[str, Any]] = {
    "conv1d": {"M": 40, "N": 5, "B": 2, "C": 3, "F": 6, "stride": 2},
    "depthwise_conv2d": {"B": 2, "C": 3, "H": 9, "W": 7, "K": 5, "multiplier": 2},
}
EACH = pytest.mark.parametrize("operator", SHAPES)


def gradient(operator: str, direction: str, **fields: Any) -> WithGradients:
    fields = SHAPES[operator] | fields | {"direction": direction}
    found: Any = templates.operator(operator).workload.model_validate(fields)
    return found  # type: ignore[no-any-return]


@EACH
def test_arguments_of_a_gradient_follow_from_its_direction(operator: str) -> None:
    """backward_input takes the output's gradient, the weight and, with an activation, the sums.

    backward_weight takes the input instead of the weight; with a bias, its output is flat and has
    the bias's gradient behind the weight's.
    """
    forward: Any = gradient(operator, "forward", bias=True, residual=True, activation="silu")
    x, w, _, _, y = forward.arguments
    g, weight, z, dx = gradient(operator, "backward_input", activation="silu").arguments
    names = [(each.name, each.role, each.symbol) for each in (g, weight, z, dx)]
    assert names == [
        ("output_gradient", "gradient", "g"),
        ("weight", "weight", "w"),
        ("sums", "sums", "z"),
        ("output", "output", "y"),
    ]
    assert g.shape == z.shape == y.shape
    assert (weight, dx.shape, dx.layout) == (w, x.shape, x.layout)
    given, g, dw = gradient(operator, "backward_weight").arguments
    assert (given, g.name, dw.shape, dw.layout) == (x, "output_gradient", w.shape, w.layout)
    flat = gradient(operator, "backward_weight", bias=True).output
    assert (flat.shape, flat.layout) == ((w.elements + forward.out_channels,), None)


@EACH
def test_key_of_a_gradient_leaves_out_fields_without_effect(operator: str) -> None:
    """A key has no field on which the gradient does not depend: it never has residual, and has bias
    only for the weight's gradient. The key of a forward workload has no direction."""
    ends = {"bias": True, "residual": True}
    assert gradient(operator, "backward_input", **ends) == gradient(operator, "backward_input")
    with_bias = gradient(operator, "backward_weight", bias=True)
    assert gradient(operator, "backward_weight", **ends) == with_bias
    assert with_bias != gradient(operator, "backward_weight")
    assert "direction" not in gradient(operator, "forward").key
    key = with_bias.key
    assert json.loads(key)["direction"] == "backward_weight"
    assert templates.parse_key(key) == with_bias
    assert not with_bias.is_plain


@pytest.mark.parametrize(
    ("direction", "fields", "taps"),
    [
        # two kernels for each channel; at stride 2 an input meets at most three of five taps
        ("backward_input", {}, 2 * 3),
        ("backward_input", {"dilation": 2}, 2 * 5),
        ("backward_input", {"groups": 1}, 6 * 3),
        ("backward_weight", {}, 2 * 22),
        ("backward_weight", {"bias": True}, 2 * 22),
    ],
)
def test_flops_of_a_gradient_count_two_for_each_multiply_add(
    direction: str, fields: dict[str, Any], taps: int
) -> None:
    work = gradient("conv1d", direction, **fields)
    assert work.taps == taps
    outputs = 2 * 3 * 40 if direction == "backward_input" else 6 * 5
    assert work.flops == 2 * taps * outputs


def test_an_input_gradient_at_stride_1_is_a_forward_workload() -> None:
    same: Any = gradient("depthwise_conv2d", "backward_input", multiplier=1, K=4).as_forward
    assert same.is_flipped
    assert not same.is_plain
    assert same.pads == (1, 1, 1, 1)
    assert (same.H, same.W) == (10, 8)
    one: Any = Conv1dWorkload(M=40, N=5, direction="backward_input").as_forward
    assert one == Conv1dWorkload(M=44, N=5, mode="valid", kind="correlate")


@pytest.mark.parametrize(
    "fields",
    [
        {"stride": 2},
        {"F": 6},
        {"F": 6, "groups": 1},
        {"activation": "relu"},
        {"padding": (5, 4)},
        {"M": MAX_INPUT, "C": 1, "B": 1},
        {"direction": "backward_weight"},
        {"direction": "forward"},
    ],
)
def test_other_gradients_are_no_forward_workload(fields: dict[str, Any]) -> None:
    """Other gradients of an input, and other directions, are no forward workload."""
    usual = {"M": 40, "N": 5, "C": 3, "B": 2, "direction": "backward_input"}
    assert Conv1dWorkload.model_validate(usual).as_forward is not None
    assert Conv1dWorkload.model_validate(usual | fields).as_forward is None


@EACH
@given(data=st.data())
def test_forward_workload_of_an_input_gradient_computes_the_same(
    operator: str, data: st.DataObject
) -> None:
    """The forward workload ``as_forward`` computes the same numbers with as many operations."""
    work = data.draw(small_gradients(operator).filter(lambda work: work.as_forward is not None))
    rng = np.random.default_rng(0)
    g, w = (rng.standard_normal(argument.shape) for argument in work.inputs)
    reference = templates.operator(operator).reference
    taps = w[..., ::-1, ::-1] if operator == "depthwise_conv2d" else w
    same, exact = reference(work.as_forward, g, taps), reference(work, g, w)
    assert same.shape == exact.shape
    assert np.abs(same - exact).max() <= 1e-14 * np.linalg.norm(g) * np.linalg.norm(w)
    assert work.as_forward.flops == work.flops


@EACH
@BOUNDED
@given(data=st.data())
def test_every_gradient_program_for_a_cpu_is_right(operator: str, data: st.DataObject) -> None:
    """For any shape, layout, dtype and activation, the naive program and any configuration of each
    template are checked."""
    work = data.draw(small_gradients(operator))
    known = cases_of(work)
    naive: Any = naive_on("cpu")
    check(Compiled(naive, work, {}).errors, known, work.max_error)
    for template in templates.templates_for(work, CPU):
        space = template.space(work, CPU)
        config = space[data.draw(st.integers(0, len(space) - 1))]
        check(Compiled(template, work, config).errors, known, work.max_error)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("direction", ["backward_input", "backward_weight"])
@pytest.mark.parametrize("fields", [{}, {"dtype": "bfloat16", "activation": "gelu", "bias": True}])
@EACH
def test_naive_gradient_programs_compile_for_a_gpu(
    operator: str, fields: dict[str, Any], direction: str, limits: Any
) -> None:
    work = gradient(operator, direction, **fields)
    naive: Any = naive_on("cuda")
    assert cubin(source(naive, work, {}, limits), limits.arch)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
def test_forward_templates_of_a_gpu_serve_the_gradient_of_an_input(
    limits: Any, dtype: str, layout: str
) -> None:
    fields = {"B": 2, "C": 32, "H": 20, "W": 24, "K": 5, "dtype": dtype, "layout": layout}
    forward = DepthwiseConv2dWorkload.model_validate(fields)
    backward = DepthwiseConv2dWorkload.model_validate(fields | {"direction": "backward_input"})
    serving = {each.name: each for each in templates.templates_for(backward, limits)}
    known = templates.templates_for(forward, limits)
    assert serving.keys() >= {each.name for each in known if each.by_default} - {"splits"}
    for template in serving.values():
        config = template.default(backward, limits)
        assert config in template.space(backward, limits)
        cubin(source(template, backward, config, limits), limits.arch)


def test_gradient_templates_serve_no_forward_workload() -> None:
    """A template's name also tells whether it computes gradients."""
    for operator in templates.operators():
        named: dict[tuple[str, str], set[bool]] = {}
        for each in operator.templates:
            named.setdefault((each.kind, each.name), set()).add(each.computes_gradients)
        assert all(len(kinds) == 1 for kinds in named.values())
        forward = operator.workload.model_validate(operator.example)
        for limits in (CPU, H200):
            found = templates.templates_for(forward, limits)
            assert not any(each.computes_gradients for each in found)


def test_program_of_a_trace_takes_all_arguments_of_a_gradient(tmp_path: Path) -> None:
    """A trace begins with the naive program, so that program must compute gradients, too."""
    from templates.records.trace import Trace

    for operator in SMALL:
        for direction in ("backward_input", "backward_weight"):
            work = gradient(operator, direction)
            function = Trace().computation(work, {})
            assert len(function.params) == len(work.arguments)
