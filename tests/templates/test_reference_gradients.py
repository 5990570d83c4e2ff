"""The float64 references of gradients equal a slow loop, finite differences and PyTorch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.exact.epilogue import apply_epilogue
from templates.gradients import WithGradients
from tests.templates.shapes import SMALL, small_gradients

EACH = pytest.mark.parametrize("operator", SMALL)
WAYS = {"direct": 2**20, "by transforms": 0}
"""For each method, the value of DIRECT_TAPS with which every kernel takes it."""


def forward_of(work: WithGradients) -> Any:
    fields = work.model_dump(exclude_none=True, exclude={"direction", "residual"})
    return type(work).model_validate(fields)


def drawn(work: WithGradients, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random inputs of a gradient and of its forward workload, by name, and the sums that
    follow from them."""
    forward, rng = forward_of(work), np.random.default_rng(seed)
    values = {each.name: rng.standard_normal(each.shape) for each in forward.inputs}
    values["output_gradient"] = rng.standard_normal(forward.output.shape)
    values["bias"] = rng.standard_normal(forward.out_channels) * forward.bias
    values["sums"] = sums_of(work, values)
    return values


def sums_of(work: WithGradients, values: dict[str, np.ndarray]) -> np.ndarray:
    fields = {"activation": "none", "bias": True}
    plain = type(work).model_validate(forward_of(work).model_dump(exclude_none=True) | fields)
    reference = templates.operator(work.operator).reference
    return reference(plain, *(values[name] for name in ("input", "weight", "bias")))


def found(work: WithGradients, values: dict[str, np.ndarray]) -> np.ndarray:
    reference = templates.operator(work.operator).reference
    result = reference(work, *(values[each.name] for each in work.inputs))
    assert result.dtype == np.float64
    assert result.shape == work.output.shape
    return result


@EACH
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_gradient_reference_equals_a_central_difference(operator: str, data: st.DataObject) -> None:
    """The gradient is compared with a directional derivative, a central difference in float64."""
    work = data.draw(small_gradients(operator))
    if work.activation in ("relu", "relu6", "hardswish"):  # their derivatives jump
        work = work.model_copy(update={"activation": "gelu"})
    values, rng = drawn(work), np.random.default_rng(1)
    moved = ["input"] if work.direction == "backward_input" else ["weight"]
    moved += ["bias"] if work.bias else []
    steps = {name: rng.standard_normal(values[name].shape) for name in moved}

    def loss(by: float) -> float:
        there = values | {name: values[name] + by * step for name, step in steps.items()}
        output = apply_epilogue(
            work.model_copy(update={"bias": False}), sums_of(work, there), (), axis=1
        )
        return float((output * values["output_gradient"]).sum())

    step = 1e-4
    flat = np.concatenate([steps[name].reshape(-1) for name in moved])
    exact = float(found(work, values).reshape(-1) @ flat)
    scale = np.linalg.norm(found(work, values)) * np.linalg.norm(flat) + 1e-9
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(exact, abs=1e-5 * scale + 1e-7)


@EACH
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_gradient_reference_does_not_depend_on_method_or_block_size(
    operator: str, way: str, data: st.DataObject
) -> None:
    work = data.draw(small_gradients(operator))
    values = drawn(work)
    exact = found(work, values)
    room = import_module(f"templates.{operator}.sums_exact")
    block = data.draw(st.integers(20, 400))
    with patch.object(room, "DIRECT_TAPS", WAYS[way]), patch.object(room, "BLOCK", block):
        again = found(work, values)
    norms = np.linalg.norm(values["output_gradient"]) * np.linalg.norm(
        values["weight" if work.direction == "backward_input" else "input"]
    )
    assert np.abs(again - exact).max() <= 1e-14 * norms + 1e-12


@EACH
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_gradient_reference_equals_the_forward_sums_of_unit_tensors(
    operator: str, data: st.DataObject
) -> None:
    """The sums are linear in the input and in the weight, so the forward reference of a tensor with
    a single 1 gives the gradient of that element."""
    work = data.draw(small_gradients(operator))
    work = work.model_copy(update={"bias": False})
    values, rng = drawn(work), np.random.default_rng(2)
    exact = found(work, values)
    slope = found_slope(work, values["sums"])
    name = "input" if work.direction == "backward_input" else "weight"
    for _ in range(3):
        place = tuple(int(rng.integers(extent)) for extent in exact.shape)
        one = np.zeros(values[name].shape)
        one[place] = 1.0
        sums = sums_of(work, values | {name: one, "bias": np.zeros_like(values["bias"])})
        alone = float((sums * slope * values["output_gradient"]).sum())
        assert exact[place] == pytest.approx(alone, rel=1e-6, abs=1e-6)


def found_slope(work: WithGradients, sums: np.ndarray) -> np.ndarray:
    """Return the activation's derivative at each sum, by hand or as a central difference."""
    by_hand: dict[str, Callable[[float], float]] = {
        "none": lambda v: 1.0,
        "relu": lambda v: float(v > 0),
        "relu6": lambda v: float(0 < v < 6),
        "silu": lambda v: _silu(v + 1e-5, v - 1e-5),
        "gelu": lambda v: _gelu(v + 1e-5, v - 1e-5),
        "hardswish": lambda v: 0.0 if v <= -3 else 1.0 if v >= 3 else v / 3 + 0.5,
    }
    return np.vectorize(by_hand[work.activation], otypes=[float])(sums)


def _silu(above: float, below: float) -> float:
    values = [v / (1 + np.exp(-v)) for v in (above, below)]
    return float((values[0] - values[1]) / (above - below))


def _gelu(above: float, below: float) -> float:
    from math import erfc, sqrt

    values = [v * erfc(-v / sqrt(2)) / 2 for v in (above, below)]
    return (values[0] - values[1]) / (above - below)


@pytest.mark.torch
@EACH
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_gradient_reference_equals_pytorchs(operator: str, data: st.DataObject) -> None:
    import torch

    work = data.draw(small_gradients(operator))
    values = drawn(work)
    x, w, b = (
        torch.tensor(values[name], requires_grad=True) for name in ("input", "weight", "bias")
    )
    ends = {"none": torch.nn.Identity()} | {
        name: getattr(torch.nn.functional, name)
        for name in ("relu", "relu6", "silu", "gelu", "hardswish")
    }
    y = ends[work.activation](convolved(work, x, w, b))
    y.backward(torch.tensor(values["output_gradient"]))
    if work.direction == "backward_input":
        exact = x.grad.numpy()
    else:
        parts = [w.grad, b.grad] if work.bias else [w.grad]
        exact = np.concatenate([each.numpy().reshape(-1) for each in parts])
    norms = np.linalg.norm(values["output_gradient"]) * max(
        np.linalg.norm(values[name]) for name in ("input", "weight")
    )
    apart = np.abs(found(work, values).reshape(-1) - exact.reshape(-1)).max()
    assert apart <= 1e-13 * norms + 1e-12


def convolved(work: Any, x: Any, w: Any, b: Any) -> Any:
    """Return PyTorch's sums, in the shape of the workload's forward output."""
    from torch.nn import functional

    if work.operator == "depthwise_conv2d":
        top, left, bottom, right = work.pads
        last = work.layout == "NHWC"
        padded = functional.pad(x.permute(0, 3, 1, 2) if last else x, (left, right, top, bottom))
        y = functional.conv2d(padded, w, b, work.stride, 0, work.dilation, work.C)
        return y.permute(0, 2, 3, 1) if last else y
    last = work.layout == "NWC"
    x = x.reshape(1, 1, -1) if work.is_one_signal else x.transpose(1, 2) if last else x
    taps = w.reshape(work.out_channels, work.summed, work.N)
    taps = taps.flip(-1) if work.kind == "convolve" else taps
    groups = 1 if work.is_dense else work.C
    y = functional.conv1d(
        functional.pad(x, work.pads), taps, b, work.stride, 0, work.dilation, groups
    )
    y = y.transpose(1, 2) if last and not work.is_one_signal else y
    return y.reshape(-1) if work.is_one_signal else y
