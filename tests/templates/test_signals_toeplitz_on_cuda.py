"""The template for signals that share kernels on tensor cores of compute capability 9.0: the
workloads that it serves, its results, emulated on a CPU, and its registers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.conv1d.cuda.sharing.schedules import signals_toeplitz
from templates.conv1d.cuda.sharing.signals_toeplitz import (
    CudaSignalsToeplitz,
    blocks,
    shared_words,
    threads,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, render
from tests.templates import emulated
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4
from tuner.measure import cases
from tuner.measure.check import check, relative_error

LAYER = {"B": 64, "C": 768, "M": 1024, "N": 1024, "mode": "causal", "dtype": "float16"}
MATRIX = Path(__file__).with_name("emulated_matrix.h")
TEMPLATE = CudaSignalsToeplitz()


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"C": 3, "F": 6, "N": 48, "dtype": "bfloat16", "bias": True, "residual": True}, True),
        ({"C": 4, "M": 100_000, "N": 700}, True),
        ({"dtype": "float32"}, False),
        ({"B": 15}, False),
        ({"N": 47}, False),
        ({"C": 4, "M": 20_000, "N": 16_384}, False),
        ({"stride": 2}, False),
        ({"layout": "NWC"}, False),
        ({"C": 64, "groups": 1}, False),
    ],
    ids=str,
)
def test_signals_toeplitz_serves_enough_16_bit_signals(
    fields: dict[str, Any], served: bool
) -> None:
    assert TEMPLATE.applies(workload(**fields), H200) is served


def test_signals_toeplitz_needs_compute_capability_9_0() -> None:
    assert not TEMPLATE.applies(workload(), T4)


@st.composite
def layers(draw: st.DrawFn) -> Conv1dWorkload:
    """Draw a workload, N > M and padding wider than the kernel included."""
    N = draw(st.integers(48, 300))
    M = draw(st.sampled_from([1, N, 2 * N + 1]) | st.integers(1, 50).map(lambda n: 8 * n))
    padded = st.fixed_dictionaries({"padding": st.tuples(*[st.integers(0, N + 100)] * 2)})
    modes = ["full", "same", "causal", *(["valid"] if N <= M else [])]
    fields = draw(padded | st.fixed_dictionaries({"mode": st.sampled_from(modes)}))
    C = draw(st.integers(1, 2))
    layer = {
        "B": draw(st.sampled_from([16, 64, 70])),
        "C": C,
        "F": C * draw(st.integers(1, 2)),
        "M": M,
        "N": N,
        "kind": draw(st.sampled_from(["convolve", "correlate"])),
        "dtype": draw(st.sampled_from(["float16", "bfloat16"])),
    }
    if "padding" in fields and M + sum(fields["padding"]) < N:
        fields = {"mode": "full"}
    return Conv1dWorkload.model_validate(layer | fields)


@settings(max_examples=12, derandomize=True, deadline=None, database=None)
@given(data=st.data())
def test_any_configuration_is_right(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    layer, folder = data.draw(layers()), tmp_path_factory.mktemp("cases")
    space = TEMPLATE.space(layer, H200)
    assert_right(layer, space[data.draw(st.integers(0, len(space) - 1))], folder)


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
@pytest.mark.parametrize("M", [203, 208])
def test_any_number_of_warpgroups_copies_all_samples(groups: int, M: int, tmp_path: Path) -> None:
    """Signals of 208 samples are copied in whole vectors, those of 203 sample by sample."""
    layer = Conv1dWorkload.model_validate(
        {"B": 100, "M": M, "N": 90, "mode": "causal", "dtype": "bfloat16"}
    )
    config = TEMPLATE.default(layer, H200) | {"columns": 64, "groups": groups, "resident": 1}
    assert config in TEMPLATE.space(layer, H200)
    assert_right(layer, config, tmp_path)


def assert_right(layer: Conv1dWorkload, config: dict[str, Any], folder: Path) -> None:
    """Assert that a configuration's program, emulated, passes the check."""
    source = render(
        signals_toeplitz.substitutions(layer, config),
        MATRIX,
        signals_toeplitz.TRANSPOSE,
        signals_toeplitz.SOURCE,
    )
    text = f"constexpr bool HAS_BIAS = false;\n{source}"
    extents = blocks(layer, config), threads(config), shared_words(layer, config)
    launch = Launch("conv1d_signals_toeplitz", *extents)
    cases.write(layer, folder, seed=1)

    def errors(case: cases.Case) -> dict[str, float]:
        output = emulated.run(layer, text, [launch], case.inputs, 0, optimised=1)
        return {"output": relative_error(output, case.references["output"], case.scales["output"])}

    check(errors, cases.read(layer, folder), layer.max_error)


@pytest.mark.parametrize(
    "knobs",
    [
        {"columns": 256, "groups": 1, "stages": 4, "resident": 3},
        {"columns": 128, "groups": 2, "stages": 6, "resident": 2},
        {"columns": 64, "groups": 4, "resident": 1, "stores": "streaming"},
    ],
    ids=str,
)
def test_signals_toeplitz_keeps_its_sums_in_registers(knobs: dict[str, Any]) -> None:
    layer = workload()
    config = TEMPLATE.default(layer, H200) | knobs
    assert config in TEMPLATE.space(layer, H200)
    registers, stack = taken(TEMPLATE, layer, config, H200)
    in_all = registers * threads(config) * config["resident"]
    assert (in_all <= H200.registers_per_unit, stack) == (True, 0)
