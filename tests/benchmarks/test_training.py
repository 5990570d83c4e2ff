"""The page of gradients: what it sums, and that it is of its figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.training import cpu, layers, measured, page

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def row(ours: list[float], **pytorch: float) -> dict[str, Any]:
    return {"ours": [{"time_us": time, "config": {}} for time in ours], "pytorch": pytorch}


def test_a_layer_is_held_against_the_layout_with_the_smaller_sum() -> None:
    rows = {
        "a k3 forward": row([5.0, 3.0], NCHW=1.0, NHWC=4.0),
        "a k3 backward_input": row([2.0], NCHW=30.0, NHWC=8.0),
        "a k3 backward_weight": row([5.0], NCHW=9.0, NHWC=8.0),
    }
    found = page.layer(rows, "a k3")
    assert (found["sum"], found["layout"], found["fastest"], found["times"]) == (10, "NHWC", 20, 2)


def test_what_was_not_measured_has_no_sum() -> None:
    rows = {
        "a k3 forward": row([3.0], NCHW=1.0, NHWC=4.0),
        "a k3 backward_weight": row([], NCHW=9.0, NHWC=8.0),
    }
    found = page.layer(rows, "a k3")
    assert (found["sum"], found["times"]) == (None, None)
    assert page.names(rows) == ["a k3"]


@pytest.mark.parametrize("kernel", ["main_kernel", "main_kernel_1"])
def test_a_kernels_parameters_are_known_by_their_symbols(kernel: str) -> None:
    head = 'extern "C" __global__ void __launch_bounds__(192) '
    source = "".join(
        f"{head}{name}(half* __restrict__ g_ptr, float* __restrict__ workspace_ptr) {{}}\n"
        for name in ("main_kernel", "main_kernel_1")
    )
    assert list(measured._parameters(source, kernel)) == ["g", "workspace"]


def test_a_layers_forward_configuration_is_known() -> None:
    known = {name: layers.best_forward(name) for name in layers.layers()}
    assert [name for name, config in known.items() if config is None] == ["96×56² k7 float32"]


def test_the_page_is_of_its_figures() -> None:
    result = json.loads((DOCS / "training.json").read_text())
    assert page.markdown(result) == (DOCS / "training.md").read_text()


def test_the_page_of_a_cpu_is_of_its_figures() -> None:
    result = json.loads((DOCS / "training-cpu.json").read_text())
    assert cpu.markdown(result) == (DOCS / "training-cpu.md").read_text()
