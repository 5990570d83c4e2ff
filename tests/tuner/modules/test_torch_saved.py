"""What a layer keeps for its gradients, and what a program may change before the backward pass."""

from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.autograd.graph import saved_tensors_hooks  # noqa: E402

import tuner.torch  # noqa: E402
from tuner.torch.modules import DepthwiseConv2d  # noqa: E402

pytestmark = pytest.mark.torch

FROM_SUMS = ("silu", "gelu", "hardswish")
"""Activations whose derivatives are computed from the sums before them."""


def layer(trained: Local, activation: Any) -> Any:
    torch.manual_seed(6)
    weight, bias = nn.Parameter(torch.randn(6, 1, 3, 3)), nn.Parameter(torch.randn(6))
    return DepthwiseConv2d(weight, bias, source=trained, activation=activation)


def by_module(module: Any) -> Any:
    return module


def by_name(module: Any) -> Any:
    tuner.torch.use(module.source)
    operator = torch.ops.convtune.depthwise_conv2d
    return lambda x: operator(
        x, module.weight, module.bias, padding=1, activation=module.activation
    )


def by_pytorch(module: Any) -> Any:
    return lambda x: module.plain(x, module.weight, module.bias)


@pytest.mark.parametrize("called", [by_module, by_name])
@pytest.mark.parametrize("activation", [*FROM_SUMS, "relu"])
def test_bias_may_change_between_call_and_backward_pass(
    trained: Local, x: Any, called: Any, activation: str
) -> None:
    """If only biases are trained, a step may come between two backward passes, as with PyTorch's
    layers."""
    found = []
    try:
        for call in (called, by_pytorch):
            module = layer(trained, activation)
            module.weight.requires_grad_(False)
            run, optimiser = call(module), torch.optim.SGD([module.bias], lr=0.1)
            first, second = run(x), run(2 * x)
            first.square().sum().backward()
            optimiser.step()
            second.square().sum().backward()
            found.append(module.bias.grad)
    finally:
        tuner.torch.use(None)
    assert torch.allclose(*found, rtol=1e-4)


@pytest.mark.parametrize("activation", FROM_SUMS)
def test_second_derivative_by_the_bias_is_right_after_it_changed(
    trained: Local, x: Any, activation: str
) -> None:
    found = []
    for call in (by_module, by_pytorch):
        module = layer(trained, activation)
        module.weight.requires_grad_(False)
        y = call(module)(x).square().sum()
        with torch.no_grad():
            module.bias.add_(1)
        (once,) = torch.autograd.grad(y, module.bias, create_graph=True)
        found.append(torch.stack([once, *torch.autograd.grad(once.sum(), module.bias)]))
    assert torch.allclose(*found, rtol=1e-4)


def gradient(call: Any, weight: Any, x: Any) -> Any:
    """Return the weight's gradient in a call whose residual changes before the backward pass."""
    residual = torch.ones_like(x)
    y = call(x, residual=residual)
    residual += 1
    return torch.autograd.grad(y.square().sum(), weight)[0]


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_residual_may_change_before_the_backward_pass(
    trained: Local, x: Any, activation: str
) -> None:
    module = layer(trained, activation)
    exact = gradient(
        lambda x, residual: module.plain(x, module.weight, module.bias, residual), module.weight, x
    )
    assert torch.allclose(gradient(module, module.weight, x), exact, rtol=1e-4)


@pytest.mark.parametrize("activation", FROM_SUMS)
def test_changed_residual_is_refused_if_the_sums_need_it(
    trained: Local, x: Any, activation: str
) -> None:
    module = layer(trained, activation)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradient(module, module.weight, x)


@pytest.mark.parametrize(
    ("activation", "numbers"), [("none", 0), ("silu", 6), ("relu", 2 * 6 * 7 * 9)]
)
def test_layer_keeps_little_beside_what_it_is_given(
    trained: Local, x: Any, activation: str, numbers: int
) -> None:
    """A layer keeps its output or a copy of its bias, or neither."""
    module, residual, kept = layer(trained, activation), torch.ones_like(x), {}

    def noted(tensor: Any) -> Any:
        kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    with saved_tensors_hooks(noted, lambda tensor: tensor):
        y = module(x, residual)
    for given in (x, residual, module.weight):
        kept.pop(given.data_ptr(), None)
    assert module.used == "tuned"
    assert y.requires_grad
    assert sum(kept.values()) == numbers
