"""The epilogue (bias, residual and activation): its definition, and that every program applies
it."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tvm
from tvm import te

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.epilogue import Activation
from templates.exact.epilogue import apply_epilogue
from templates.kernels.epilogue import activation_derivative
from templates.kernels.halves import arithmetics
from templates.naive import naive_on
from tests.templates.compiled import Compiled
from tests.templates.cuda_source import taken
from tests.templates.devices import CPU, H200, T4
from tuner.measure import cases
from tuner.measure.check import check

ACTIVATIONS = get_args(Activation)
BY_HAND: dict[str, Callable[[float], float]] = {
    "none": lambda v: v,
    "relu": lambda v: max(v, 0.0),
    "relu6": lambda v: min(max(v, 0.0), 6.0),
    "silu": lambda v: v / (1 + math.exp(-v)),
    "gelu": lambda v: v * math.erfc(-v / math.sqrt(2)) / 2,
    "hardswish": lambda v: v * min(max(v + 3, 0.0), 6.0) / 6,
}
SHAPES: dict[str, dict[str, Any]] = {
    # kernels long enough for all templates
    "conv1d": {"M": 307, "N": 130},
    "depthwise_conv2d": {"B": 2, "C": 3, "H": 9, "W": 19, "K": 5},
}


def workload(operator: str, **fields: Any) -> Any:
    return templates.operator(operator).workload.model_validate(SHAPES[operator] | fields)


def test_plain_workloads_keep_their_keys() -> None:
    plain = '{"M":8,"N":2,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full",'
    assert Conv1dWorkload(M=8, N=2).key == plain + '"operator":"conv1d"}'
    key = Conv1dWorkload(M=8, N=2, bias=True, activation="silu").key
    assert '"activation":"silu"' in key
    assert '"bias":true' in key
    assert "residual" not in key
    assert templates.parse_key(key).key == key


@pytest.mark.parametrize("operator", SHAPES)
def test_bias_and_residual_are_arguments_between_weight_and_output(operator: str) -> None:
    """Bias and residual are arguments between weight and output, and count among the bytes."""
    work = workload(operator, bias=True, residual=True, dtype="float16")
    assert [each.name for each in work.arguments] == [
        "input",
        "weight",
        "bias",
        "residual",
        "output",
    ]
    assert work.arguments[2].shape == ((3,) if operator == "depthwise_conv2d" else (1,))
    assert work.arguments[3].shape == work.output.shape
    assert work.bytes == sum(each.elements * 2 for each in work.arguments)
    assert not work.is_plain
    assert workload(operator).is_plain


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogue_reference_equals_its_definition(activation: str) -> None:
    work = workload("depthwise_conv2d", bias=True, residual=True, activation=activation)
    rng = np.random.default_rng(1)
    sums, residual = (4 * rng.standard_normal(work.output.shape) for _ in range(2))
    bias = rng.standard_normal(3)
    found = apply_epilogue(work, sums, (bias, residual), axis=1)
    for place in np.ndindex(*sums.shape):
        exact = BY_HAND[activation](sums[place] + bias[place[1]] + residual[place])
        assert found[place] == pytest.approx(exact, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("activation", "dtype"),
    [*((each, "float32") for each in ACTIVATIONS), ("relu", "bfloat16"), ("gelu", "bfloat16")],
)
@pytest.mark.parametrize("operator", SHAPES)
def test_every_cpu_template_applies_the_epilogue(
    operator: str, activation: str, dtype: str, tmp_path: Path
) -> None:
    """Each template's default is tried; test_schedules_cpu draws other epilogues and
    configurations."""
    ends = {"bias": True, "residual": activation != "relu", "activation": activation}
    work = workload(operator, **ends, dtype=dtype)
    cases.write(work, tmp_path, seed=3)
    known = cases.read(work, tmp_path)
    for template in templates.templates_for(work, CPU):
        config = template.default(work, CPU)
        check(Compiled(template, work, config).errors, known, work.max_error)
    check(Compiled(naive_on("cpu"), work, {}).errors, known, work.max_error)  # type: ignore[arg-type]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_cpu_activations_are_right_at_any_magnitude_and_keep_a_nan(activation: str) -> None:
    """Activations on a CPU are right for small, large, zero and huge sums of either sign."""
    values = np.concatenate([np.linspace(-200, 200, 4001), [-0.0, 0.0, 1e30, -1e30]])
    x = np.concatenate([values, [np.nan]]).astype(np.float32)
    work = Conv1dWorkload.model_validate({"M": len(x), "N": 1, "activation": activation})
    (template,) = templates.templates_for(work, CPU)
    y = Compiled(template, work, template.default(work, CPU)).run(x, np.ones(1, np.float32))
    exact = apply_epilogue(work, x[:-1].astype(np.float64), (), axis=1)
    np.testing.assert_allclose(y[:-1], exact, rtol=5e-6, atol=5e-7)
    assert np.isnan(y[-1])


@pytest.mark.parametrize("max_error", [1e-6, 1e-5])
def test_vectorised_silu_keeps_its_error_bound(max_error: float) -> None:
    """The error is relative to each output itself, so the contract holds for any largest output."""
    values = np.concatenate([np.linspace(-200, 200, 40_001), np.linspace(-3, 3, 10_000), [np.nan]])
    x = np.stack([values.astype(np.float32)] * 2)
    fields = {"C": 2, "M": len(values), "N": 1, "activation": "silu", "max_error": max_error}
    work = Conv1dWorkload.model_validate(fields)
    (template,) = (t for t in templates.templates_for(work, CPU) if t.name == "signals")
    y = Compiled(template, work, template.default(work, CPU)).run(
        x.reshape(work.arguments[0].shape), np.ones(work.arguments[1].shape, np.float32)
    )
    given = x[:, :-1].astype(np.float64)
    exact = given / (1 + np.exp(-given))
    error = np.abs(y.reshape(x.shape)[:, :-1] - exact)
    relative = (2e-7 if max_error < 1e-5 else 28e-7) + 1e-7 * np.abs(given)
    assert np.all(error <= relative * np.abs(exact) + 1e-33)
    assert np.isnan(y.reshape(x.shape)[:, -1]).all()


LARGE = np.array([np.inf, 3.4e38, -3.4e38, -np.inf], np.float32)


@pytest.mark.parametrize("channels", [1, 2])
def test_silu_of_the_largest_numbers_equals_pytorchs(channels: int) -> None:
    """Programs for one channel and for several channels compute silu in different ways."""
    fields = {"C": channels, "M": len(LARGE), "N": 1, "activation": "silu"}
    work = Conv1dWorkload.model_validate(fields)
    template = templates.templates_for(work, CPU)[-1]
    x = np.stack([LARGE] * channels).reshape(work.arguments[0].shape)
    y = Compiled(template, work, template.default(work, CPU)).run(
        x, np.ones(work.arguments[1].shape, np.float32)
    )
    for row in y.reshape(channels, -1):
        np.testing.assert_array_equal(row, [np.inf, LARGE[1], 0, np.nan])


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_derivatives_at_the_largest_numbers_equal_pytorchs(activation: str) -> None:
    work = Conv1dWorkload.model_validate({"M": 4, "N": 1, "activation": activation})
    sums = te.placeholder(LARGE.shape, "float32")
    derived = te.compute(LARGE.shape, lambda at: activation_derivative(work, sums[at]))
    given, found = tvm.runtime.tensor(LARGE), tvm.runtime.tensor(np.zeros_like(LARGE))
    tvm.compile(te.create_prim_func([sums, derived]), target="llvm")["main"](given, found)
    np.testing.assert_array_equal(found.numpy(), [np.nan, 1, 0, np.nan])


def test_relu6_admits_fewer_arithmetics_on_tensor_cores() -> None:
    """relu6 cuts off large sums, but not their errors. These then weigh more, relative to the
    largest output, which is at most 6."""

    def admitted(activation: str, max_error: float) -> list[str]:
        fields = {"M": 999, "N": 400, "activation": activation, "max_error": max_error}
        return arithmetics(Conv1dWorkload.model_validate(fields), 400, H200)

    assert admitted("relu", 1e-3) == ["fp16x3", "bf16x3", "fp16"]
    assert admitted("relu6", 1e-3) == ["fp16x3", "bf16x3"]
    assert admitted("relu6", 1e-5) == []


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", SHAPES)
def test_gpu_kernels_apply_the_epilogue_without_a_stack(
    operator: str, dtype: str, limits: Any
) -> None:
    work = workload(operator, bias=True, residual=True, activation="gelu", dtype=dtype)
    serving = templates.templates_for(work, limits)
    assert serving
    for template in serving:
        _, stack = taken(template, work, template.default(work, limits), limits)
        assert stack == 0


def test_residual_counts_towards_the_limit_of_bytes() -> None:
    """A residual counts towards the limit of bytes."""
    most = {"B": 2**14, "C": 2**6, "H": 16, "W": 16, "K": 1}
    assert DepthwiseConv2dWorkload.model_validate(most | {"B": 2**13}).bytes <= 2**31
    with pytest.raises(ValueError, match="all tensors must be at most 2\\^31 bytes together"):
        DepthwiseConv2dWorkload.model_validate(most | {"residual": True, "B": 2**14 - 2**12})
