"""Convolutions with gates: their limits, their reference, the inputs of checks, and their templates
for a CPU and for CUDA. The latter are emulated on a CPU."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import templates
from templates.conv1d.cpu.gated import CpuGated
from templates.conv1d.cuda.gated import CudaGated, blocks
from templates.conv1d.cuda.schedules import gated
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, render
from tests.templates import emulated
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import CPU, H200, LIMITS, T4
from tests.templates.shapes import gated_signals
from tuner.measure import cases
from tuner.measure.check import check

SIGNALS = {"B": 2, "C": 16, "M": 37, "N": 3, "mode": "causal", "layout": "NWC", "gated": True}


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(SIGNALS | fields)


def slow(work: Conv1dWorkload, x: Any, w: Any, *b: Any) -> Any:
    """Return the exact output, sample by sample."""
    y = np.zeros((work.B, work.M, work.C))
    before, behind, signal = (x[..., n * work.C : (n + 1) * work.C].astype("f8") for n in range(3))
    for i, t in np.ndindex(work.M, work.N):
        at = i + t * work.dilation - work.left
        if 0 <= at < work.M:
            tap = w[:, 0, work.N - 1 - t if work.kind == "convolve" else t].astype("f8")
            y[:, i] += before[:, at] * signal[:, at] * tap
    return (y + (b[0].astype("f8") if b else 0)) * behind


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"layout": "NCW"}, "layout"),
        ({"groups": 1}, "groups"),
        ({"F": 32}, "F"),
        ({"stride": 2}, "stride"),
        ({"mode": "full"}, "mode"),
        ({"mode": "full", "padding": None}, "mode"),
        ({"mode": None, "padding": [0, 0]}, "padding"),
        ({"mode": None, "padding": [5, 2]}, "padding"),
        ({"residual": True}, "residual"),
        ({"activation": "silu"}, "activation"),
        ({"direction": "backward_input"}, "direction"),
        ({"direction": "backward"}, "direction"),
    ],
    ids=str,
)
def test_gated_workload_refuses_a_field_by_name_with_the_way_out(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        workload(**fields)
    (error,) = refused.value.errors()
    assert error["ctx"]["field"] == named
    assert "multiply by the gates before and after the convolution" in error["msg"]


def test_gated_input_has_three_times_the_channels() -> None:
    work = workload(bias=True)
    assert [each.shape for each in work.arguments] == [(2, 37, 48), (16, 1, 3), (16,), (2, 37, 16)]
    assert work.gate_channels == 32
    assert '"gated":true' in work.key
    assert "gated" not in workload(gated=False).key


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(gated_signals())
def test_gated_reference_equals_a_slow_loop(work: Conv1dWorkload) -> None:
    inputs = cases.draw(work, "normal", np.random.default_rng(1))
    np.testing.assert_allclose(reference(work, *inputs), slow(work, *inputs), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", cases.CASES)
def test_gates_neither_overflow_nor_erase_the_outputs_of_a_case(name: str, dtype: str) -> None:
    """Gates are neither zero nor so large that outputs overflow: references are finite, and those
    of an impulse reach as far as the kernel."""
    work = workload(dtype=dtype, N=5)
    inputs = cases.draw(work, name, np.random.default_rng(2))
    exact = reference(work, *inputs)
    assert np.isfinite(exact).all()
    assert np.abs(exact).max() < np.finfo("f2" if dtype == "float16" else "f4").max
    if name == "impulse":
        assert np.any(exact[0] != 0, axis=1).sum() == 5 + 1  # of the first sample and of the last
    if name == "positive":
        assert (exact > 0).all()


@pytest.mark.parametrize("kind", sorted(LIMITS))
@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(work=gated_signals())
def test_only_gated_templates_serve_gated_workloads(kind: str, work: Conv1dWorkload) -> None:
    found = templates.templates_for(work, LIMITS[kind])
    assert [each.name for each in found] == ["gated"]
    plain = Conv1dWorkload.model_validate(work.model_dump() | {"gated": False})
    assert "gated" not in [each.name for each in templates.templates_for(plain, LIMITS[kind])]


@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(work=gated_signals(), place=st.floats(0, 1, exclude_max=True), apart=st.sampled_from([0, 1]))
def test_any_gated_configuration_is_right_on_cuda(
    work: Conv1dWorkload, place: float, apart: int
) -> None:
    """Any configuration is right, also on inputs that begin one element behind a vector."""
    space = CudaGated().space(work, H200)
    config = space[int(place * len(space))]
    text = render(gated.substitutions(work, config), gated.SOURCE)
    launch = Launch("conv1d_gated", blocks(work, config), config["threads"], 0)
    assert emulated.error(work, text, [launch], apart=apart) <= work.max_error


@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(work=gated_signals(), place=st.floats(0, 1, exclude_max=True))
def test_any_gated_configuration_is_right_on_a_cpu(work: Conv1dWorkload, place: float) -> None:
    space = CpuGated().space(work, CPU)
    config = space[int(place * len(space))]
    check(Compiled(CpuGated(), work, config).errors, cases_of(work), work.max_error)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gated_kernel_keeps_a_strip_in_registers(limits: Any, dtype: str) -> None:
    work = workload(dtype=dtype, C=1024, M=4096, bias=True)
    template = CudaGated()
    config = template.default(work, limits) | {"rows": 8, "resident": 4}
    assert config in template.space(work, limits)
    text = source(template, work, config, limits)
    registers, stack = registers_and_stack(cubin(text, limits.arch))
    assert (registers <= 128, stack) == (True, 0)
