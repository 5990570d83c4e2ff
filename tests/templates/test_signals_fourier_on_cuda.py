"""The template that transforms signals which share long kernels on tensor cores of compute
capability 9.0: the workloads that it serves, its results, emulated on a CPU, and its registers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates import templates_for
from templates.conv1d.cuda.sharing.schedules import signals_fourier
from templates.conv1d.cuda.sharing.signals_fourier import CudaSignalsFourier, workspace
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import render
from tests.templates import emulated
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import H200, T4
from tuner.measure import cases
from tuner.measure.check import check, relative_error

LAYER = {"B": 64, "C": 768, "M": 8192, "N": 8192, "mode": "causal", "dtype": "float16"}
HALVES = Path(__file__).with_name("emulated_halves.h")
TEMPLATE = CudaSignalsFourier()
SPILLED = 64  # bytes of stack that a thread may spill to, as they cost little


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"C": 3, "F": 6, "N": 128, "dtype": "bfloat16", "bias": True, "residual": True}, True),
        ({"C": 4, "M": 4096, "N": 4097, "mode": "full"}, True),
        ({"C": 4, "M": 4096, "N": 4098, "mode": "full"}, False),
        ({"C": 4, "M": 8193}, False),
        ({"N": 4096, "mode": "valid"}, False),
        ({"dtype": "float32"}, False),
        ({"max_error": 9e-4}, False),
        ({"B": 3}, False),
        ({"N": 127}, False),
        ({"C": 4, "layout": "NWC"}, False),
        ({"C": 8, "groups": 1, "N": 512}, False),
    ],
    ids=str,
)
def test_signals_fourier_serves_16_bit_signals_from_their_first_output(
    fields: dict[str, Any], served: bool
) -> None:
    assert TEMPLATE.applies(workload(**fields), H200) is served


def test_signals_fourier_needs_compute_capability_9_0() -> None:
    assert not TEMPLATE.applies(workload(), T4)


def test_signals_fourier_serves_a_layer_too_large_for_direct_sums() -> None:
    """The layer has more operations than templates without a transform may do."""
    assert workload().must_transform
    assert "signals_fourier" in {each.name for each in templates_for(workload(), H200)}


def test_default_of_signals_fourier_is_in_its_space() -> None:
    for layer in (workload(), workload(C=1, B=4, M=1000, N=1000)):
        assert TEMPLATE.default(layer, H200) in TEMPLATE.space(layer, H200)


@st.composite
def layers(draw: st.DrawFn) -> Conv1dWorkload:
    """Draw a workload, N > M included."""
    N = draw(st.integers(128, 700))
    C = draw(st.integers(1, 2))
    return Conv1dWorkload.model_validate(
        {
            "B": draw(st.integers(4, 20)),
            "C": C,
            "F": C * draw(st.integers(1, 2)),
            "M": draw(st.integers(1, 1200) | st.integers(1, 150).map(lambda n: 8 * n)),
            "N": N,
            "mode": draw(st.sampled_from(["full", "causal"])),
            "kind": draw(st.sampled_from(["convolve", "correlate"])),
            "dtype": draw(st.sampled_from(["float16", "bfloat16"])),
        }
    )


@settings(max_examples=5, derandomize=True, deadline=None, database=None)
@given(data=st.data())
def test_any_configuration_is_right(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    layer, folder = data.draw(layers()), tmp_path_factory.mktemp("cases")
    space = TEMPLATE.space(layer, H200)
    config = space[data.draw(st.integers(0, len(space) - 1))]
    written = render(
        signals_fourier.substitutions(layer, config),
        HALVES,
        signals_fourier.RADIX,
        signals_fourier.TAPS,
        signals_fourier.TRANSPOSE,
        signals_fourier.SOURCE,
    )
    is_bf16 = str(layer.dtype == "bfloat16").lower()
    text = f"constexpr bool HAS_BIAS = false, IS_BF16 = {is_bf16};\n{written}"
    launches, floats = signals_fourier.launches(layer, config), workspace(layer, config)
    cases.write(layer, folder, seed=1)

    def errors(case: cases.Case) -> dict[str, float]:
        output = emulated.run(layer, text, launches, case.inputs, floats, optimised=2)
        return {"output": relative_error(output, case.references["output"], case.scales["output"])}

    check(errors, cases.read(layer, folder), layer.max_error)


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({}, {"items": 16}),
        ({"dtype": "bfloat16", "N": 4096, "M": 4096}, {"block": 32, "items": 8}),
        ({"N": 2048, "M": 2048}, {"block": 16, "items": 4, "stores": "streaming"}),
    ],
    ids=str,
)
def test_signals_fourier_keeps_its_sums_in_registers(
    fields: dict[str, Any], knobs: dict[str, Any]
) -> None:
    layer = workload(**fields)
    config = TEMPLATE.default(layer, H200) | knobs
    assert config in TEMPLATE.space(layer, H200)
    registers, stack = registers_and_stack(cubin(source(TEMPLATE, layer, config, H200), "sm_90"))
    assert (registers <= 128, stack <= SPILLED) == (True, True)
