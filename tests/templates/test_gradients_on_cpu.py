"""Gradients on a CPU: the workloads that templates serve, and that shapes which take every path
through a program are right."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.workload import MAX_INPUT, Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.gradients import WithGradients
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.devices import CPU
from tuner.measure import cases
from tuner.measure.check import check, relative_error

DIRECTIONS = ["backward_input", "backward_weight"]
BASE: dict[str, dict[str, Any]] = {
    "conv1d": {"B": 2, "C": 6, "M": 40, "N": 5},
    "depthwise_conv2d": {"B": 2, "C": 6, "H": 9, "W": 11, "K": 5},
}
LAYOUTS = {"conv1d": ("NCW", "NWC"), "depthwise_conv2d": ("NCHW", "NHWC")}
CHANNELS: dict[str, list[dict[str, Any]]] = {
    "conv1d": [{}, {"F": 12}, {"F": 4, "groups": 1}],
    "depthwise_conv2d": [{}, {"multiplier": 2}],
}
LARGE = [
    Conv1dWorkload(B=2, C=3, M=2053, N=31, stride=3, bias=True),
    Conv1dWorkload(B=1, C=5, M=1031, N=7, mode="causal", layout="NWC", activation="silu"),
    Conv1dWorkload(M=8191, N=613, stride=2, activation="relu"),
    Conv1dWorkload(M=300, N=5, dilation=331, mode="same", stride=2, B=2, C=2, F=6),
    DepthwiseConv2dWorkload(
        B=2, C=3, H=11, W=2011, K=5, stride=2, activation="gelu", bias=True, dtype="bfloat16"
    ),
    DepthwiseConv2dWorkload(
        B=2, C=37, H=29, W=523, K=7, layout="NHWC", activation="relu6", dtype="float16"
    ),
    DepthwiseConv2dWorkload(B=1, C=2, H=67, W=53, K=31, stride=4),
]
"""Workloads large enough to be divided into bands and strips of a plane, chunks of sums, groups of
taps, and parts."""


def gradient(forward: WithGradients, direction: str, **fields: Any) -> Any:
    fields = forward.model_dump(exclude_none=True) | {"direction": direction} | fields
    return type(forward).model_validate(fields)


def in_pieces(work: Any) -> list[Any]:
    """Return the templates that serve a workload and compute gradients in pieces."""
    return [t for t in templates.templates_for(work, CPU) if t.name.endswith("_pieces")]


@pytest.mark.parametrize("operator", BASE)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_gradient_has_a_cpu_template(operator: str, direction: str) -> None:
    choices = product(
        LAYOUTS[operator],
        ["float32", "bfloat16", "float16"],
        [1, 2, 3],
        [1, 2, 50],
        ["none", "silu"],
        CHANNELS[operator],
    )
    for layout, dtype, stride, dilation, activation, channels in choices:
        fields = {**BASE[operator], "layout": layout, "dtype": dtype, "stride": stride, **channels}
        fields |= {"dilation": dilation, "activation": activation, "direction": direction}
        if operator == "depthwise_conv2d":
            fields["padding"] = (4 * dilation,) * 4
        work = templates.operator(operator).workload.model_validate(fields)
        found = templates.templates_for(work, CPU)
        assert found, fields


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("forward", LARGE, ids=lambda work: work.key)
def test_gradients_of_large_workloads_in_pieces_are_right(forward: Any, direction: str) -> None:
    work = gradient(forward, direction)
    (template,) = in_pieces(work)
    space = template.space(work, CPU)
    random = int(np.random.default_rng(7).integers(len(space)))
    for config in (template.default(work, CPU), space[random]):
        assert config in space
        assert template.features(work, config, CPU)
        check(Compiled(template, work, config).errors, cases_of(work), work.max_error)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_two_runs_of_many_threads_give_the_same_bits(direction: str, layout: str) -> None:
    work = gradient(
        DepthwiseConv2dWorkload(B=5, C=19, H=23, W=31, K=3, stride=2, layout=layout, bias=True),
        direction,
    )
    (template,) = in_pieces(work)
    space = template.space(work, CPU)
    threaded = [c for c in space if c["threading"] == "parallel"]
    config = max(threaded, key=lambda c: (c.get("parts", 1), -c["rows"]))
    program = Compiled(template, work, config)
    values = cases.draw(work, "normal", np.random.default_rng(3))
    first, second = (program.run(*values).tobytes() for _ in range(2))
    assert first == second


@st.composite
def dense(draw: st.DrawFn, direction: str) -> Conv1dWorkload:
    """Draw a gradient of a small dense layer.

    Dilations that reach beyond the signal are frequent, and so is stride 1, at which an input's
    gradient can be computed as a forward convolution.
    """
    M, N = draw(st.sampled_from([1, 7, 31, 97])), draw(st.sampled_from([1, 2, 5, 13]))
    step = draw(st.sampled_from([1, 2, 4, M + 1]))
    reach = (N - 1) * step
    return Conv1dWorkload(
        M=M,
        N=N,
        B=draw(st.integers(1, 2)),
        C=draw(st.sampled_from([2, 5, 8, 37])),
        F=draw(st.sampled_from([1, 3, 8, 35])),
        groups=1,
        dilation=step,
        stride=draw(st.sampled_from([1, 1, 2, 3, 6, 40])),
        padding=(draw(st.integers(0, reach)), reach + draw(st.sampled_from([0, 0, 2]))),
        kind=draw(st.sampled_from(["convolve", "correlate"])),
        layout=draw(st.sampled_from(["NCW", "NWC"])),
        dtype=draw(st.sampled_from(["float32", "bfloat16"])),
        activation=draw(st.sampled_from(["none", "silu"])),
        bias=draw(st.booleans()),
        direction=direction,
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=6, derandomize=True, deadline=None, database=None)
@given(data=st.data())
def test_a_gradient_of_dense_channels_is_right(direction: str, data: st.DataObject) -> None:
    work = data.draw(dense(direction))
    found = templates.templates_for(work, CPU)
    names = {"input_products", "input_signals"} if work.stride == 1 else {"input_products"}
    assert {each.name for each in found} <= (
        names if direction == "backward_input" else {"weight_products"}
    )
    for template in found:
        space = template.space(work, CPU)
        assert template.default(work, CPU) in space
        config = space[data.draw(st.integers(0, len(space) - 1))]
        check(Compiled(template, work, config).errors, cases_of(work), work.max_error)


def test_a_long_weight_gradient_of_dense_channels_keeps_its_last_digits() -> None:
    """The sum takes more than 64 chunks; three float32 sums of 20,000 positive products would be
    off by 2e-6."""
    shape = {"B": 3, "C": 2, "F": 3, "groups": 1, "M": 20011, "N": 3}
    work = Conv1dWorkload.model_validate(shape | {"direction": "backward_weight"})
    (template,) = templates.templates_for(work, CPU)
    config = template.default(work, CPU) | {"depth": 128}
    given = [np.abs(each) for each in cases.draw(work, "normal", np.random.default_rng(3))]
    known = templates.operator("conv1d").reference(work, *given)
    assert relative_error(Compiled(template, work, config).run(*given), known, None) <= 1e-6


@pytest.mark.parametrize(
    "fields",
    [
        {"stride": 17},
        {"N": 9001, "activation": "relu", "mode": "same"},
        {"dilation": 2**16, "N": 160, "stride": 3},
    ],
)
def test_input_gradients_that_cost_too_much_have_no_template(fields: dict[str, Any]) -> None:
    """No template serves an input's gradient at a stride above 16, with sums of more than 4096
    products, or with pieces too large for memory."""
    usual = {"B": 1, "C": 2, "M": 10007, "N": 5, "direction": "backward_input"}
    work = Conv1dWorkload.model_validate(usual | fields)
    assert not templates.templates_for(work, CPU)
    assert in_pieces(Conv1dWorkload.model_validate(usual | {"stride": 16}))


def test_signal_longer_than_any_image_has_a_gradient_template() -> None:
    work = Conv1dWorkload(M=MAX_INPUT, N=5, direction="backward_input")
    assert work.as_forward is None
    (template,) = templates.templates_for(work, CPU)
    assert template.default(work, CPU) in template.space(work, CPU)
