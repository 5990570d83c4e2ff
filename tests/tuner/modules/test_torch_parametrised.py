"""Layers with parametrised weights keep weights and parametrisations as they are, whatever
``capture``, ``optimize_`` and ``restore_`` do with the model."""

from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import train  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations, parametrize  # noqa: E402

from tuner.torch import capture, optimize_, restore_  # noqa: E402

pytestmark = pytest.mark.torch


class Repeated(nn.Module):
    """One trained kernel for all channels, so the weight is larger than the parameter."""

    def forward(self, kernel: Any) -> Any:
        return kernel.repeat(3, 1, 1, 1)


class Halved(nn.Module):
    def forward(self, weight: Any) -> Any:
        return weight / 2

    def right_inverse(self, weight: Any) -> Any:
        return weight * 2


def repeated(conv: Any) -> None:
    conv.weight = nn.Parameter(torch.randn(1, 1, 3, 3))
    parametrize.register_parametrization(conv, "weight", Repeated(), unsafe=True)


def in_two_steps(conv: Any) -> None:
    parametrizations.weight_norm(conv)
    for name in ("weight", "bias"):
        parametrize.register_parametrization(conv, name, Halved())


PARAMETRISED: dict[str, Callable[[Any], object]] = {
    "orthogonal": parametrizations.orthogonal,
    "spectral norm": parametrizations.spectral_norm,
    "weight norm": parametrizations.weight_norm,
    "of another shape": repeated,
    "in two steps": in_two_steps,
}
each_way = pytest.mark.parametrize("change", PARAMETRISED.values(), ids=PARAMETRISED)


@pytest.fixture
def x() -> Any:
    """Return an input of the shape for which ``depthwise`` of the small libraries is tuned."""
    torch.manual_seed(1)
    return torch.randn(2, 3, 9, 20)


def trained(change: Callable[[Any], object], x: Any) -> Any:
    """Return a model whose parametrised layer was trained for a few steps."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3))
    change(model[0])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(x).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return model


def state_of(model: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def stays(model: Any, state: dict[str, Any]) -> bool:
    """Return whether the model's state has the same keys in the same order, and the same bits."""
    now = model.state_dict()
    same = all(torch.equal(now[name], value) for name, value in state.items())
    return [*now] == [*state] and same


@each_way
@pytest.mark.parametrize("training", [False, True])
def test_capture_optimize_and_restore_leave_parametrised_weights_unchanged(
    source: Local, x: Any, change: Callable[[Any], object], training: bool
) -> None:
    model = trained(change, x).train(training)
    state, parameters = state_of(model), [*model.parameters()]
    modes = {name: each.training for name, each in model.named_modules()}
    capture(model, x)
    assert stays(model, state)
    for _ in range(2):
        (row,) = optimize_(model, x, source=source).rows
        assert row.by == "tuned"
        assert stays(model, state)
        restore_(model)
        assert stays(model, state)
    assert isinstance(model[0], nn.Conv2d)
    assert {name: each.training for name, each in model.named_modules()} == modes
    assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))


@each_way
def test_optimised_parametrised_layer_trains_as_pytorchs(
    source: Local, x: Any, change: Callable[[Any], object]
) -> None:
    model, own = trained(change, x), trained(change, x)
    optimize_(model, x, source=source)
    for each in (model, own):
        train(each, x, rate=0.1, steps=2)
    restore_(model)
    assert model.training
    expected = own.state_dict()
    assert model.state_dict().keys() == expected.keys()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)


@each_way
@pytest.mark.parametrize("restored", [False, True])
def test_parametrisations_can_be_removed_after_optimize(
    source: Local, x: Any, change: Callable[[Any], object], restored: bool
) -> None:
    model = trained(change, x).eval()
    expected, weight = model(x), model[0].weight
    optimize_(model, x, source=source)
    if restored:
        restore_(model)
    for name in [*model[0].parametrizations]:
        parametrize.remove_parametrizations(model[0], name)
    assert torch.equal(model[0].weight, weight)
    for _ in range(2):
        torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-4)
        assert sorted(model.state_dict()) == ["0.bias", "0.weight"]
        restore_(model)
    assert type(model[0]) is nn.Conv2d


def test_layer_with_another_parametrised_tensor_stays_pytorchs(source: Local, x: Any) -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3)).eval()
    model[0].register_buffer("steps", torch.ones(1))
    parametrize.register_parametrization(model[0], "steps", Halved())
    (row,) = optimize_(model, x, source=source).rows
    assert row.by == "pytorch"
    assert "has steps beside its weight and bias" in row.reason
