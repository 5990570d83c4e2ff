"""The peers of gradients: PyTorch computes the gradients that the workload asks for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from tests.templates.shapes import SMALL, small_backward, small_gradients
from tuner.measure.cases import CASES, draw
from tuner.measure.check import relative_error
from tuner.peers import HOST, LAYERS, PYTORCH, peers

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch's compiler warns of PyTorch's own code
]


def gradient(operator: str, **fields: Any) -> Any:
    return templates.operator(operator).workload.model_validate(fields)


@pytest.mark.parametrize("operator", SMALL)
@settings(max_examples=24, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_gradient_peers_are_right_in_both_layouts(operator: str, data: st.DataObject) -> None:
    """Each peer that is not compiled gives the exact gradient in all test cases."""
    work = data.draw(small_gradients(operator))
    fields = {**work.model_dump(exclude_none=True), "dtype": "float32", "max_error": 1e-5}
    work = type(work).model_validate(fields)
    reference = templates.operator(operator).reference
    found = list(peers(work, "cpu", LAYERS))
    assert found
    for peer in found:
        if "compiled" in peer.name:
            continue
        for name in CASES:
            values = draw(work, name, np.random.default_rng(1))
            peer.prepare(*values).call()
            exact = reference(work, *values)
            assert relative_error(peer.output(), exact) <= work.max_error, peer.name


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(work=small_backward())
def test_peers_of_all_gradients_together_are_right(work: Any) -> None:
    fields = {**work.model_dump(exclude_none=True), "dtype": "float32", "max_error": 1e-5}
    work = type(work).model_validate(fields)
    found = list(peers(work, "cpu", LAYERS))
    assert found
    for peer in found:
        if "compiled" in peer.name:
            continue
        values = draw(work, "normal", np.random.default_rng(1))
        peer.prepare(*values).call()
        exact = templates.operator("conv1d").references(work, *values).values()
        for y, each in zip(peer.outputs(), exact, strict=True):
            assert relative_error(y, each) <= work.max_error, peer.name


SHAPES = {
    "conv1d": {"B": 2, "C": 4, "M": 30, "N": 4, "padding": (3, 0), "layout": "NWC"},
    "depthwise_conv2d": {"B": 2, "C": 4, "H": 7, "W": 9, "K": 3, "stride": 2},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("operator", SMALL)
def test_names_of_gradient_peers_have_the_layout(operator: str, dtype: str) -> None:
    work = gradient(operator, **SHAPES[operator], direction="backward_weight", dtype=dtype)
    axes = ("NCW", "NWC") if operator == "conv1d" else ("NCHW", "NHWC")
    names = [peer.name for peer in peers(work, "cpu", PYTORCH)]
    assert [f"pytorch {each}" for each in axes] == [
        name for name in names if "1 thread" not in name
    ]
    assert not list(peers(work, "cpu", HOST))
    peer = next(iter(peers(work, "cpu", PYTORCH)))
    values = draw(work, "normal", np.random.default_rng(1))
    peer.prepare(*values).call()
    exact = templates.operator(operator).reference(work, *values)
    assert relative_error(peer.output(), exact) <= work.max_error


def test_gradient_peers_are_right_with_an_activation_compiled_or_not() -> None:
    ends = {"activation": "silu", "bias": True}
    work = gradient("conv1d", **SHAPES["conv1d"], **ends, direction="backward_weight")
    found = {peer.name: peer for peer in peers(work, "cpu", PYTORCH)}
    values = draw(work, "normal", np.random.default_rng(1))
    exact = templates.operator("conv1d").reference(work, *values)
    for name in ("pytorch NWC", "pytorch compiled NWC"):
        found[name].prepare(*values).call()
        assert relative_error(found[name].output(), exact) <= work.max_error
    torch.compiler.reset()
