"""Modules between a convolution and its norm or activation, and later changes around a layer."""

import copy
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs  # noqa: E402
from torch import nn  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, vmap  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


class Noise(nn.Module):
    """A module that returns its input only in evaluation mode."""

    def forward(self, x: Any) -> Any:
        return x + torch.randn_like(x) if self.training else x


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2.0 * x


class Halved(nn.BatchNorm2d):
    def forward(self, input: Any) -> Any:  # noqa: A002
        return 0.5 * super().forward(input)


def layers(*behind: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), *behind).eval()


def test_norm_behind_a_noise_module_is_not_taken_in(source: Local, x: Any) -> None:
    model = layers(Noise(), nn.BatchNorm2d(6), nn.ReLU6())
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == []
    model[0].train()
    plain = copy.deepcopy(model)
    model[1], plain[1] = Doubled(), Doubled()
    assert close(outputs(model, x), outputs(plain, x))


def test_optimised_model_adds_noise_in_training_mode(source: Local, x: Any) -> None:
    model = layers(Noise(), nn.SiLU())
    plain = copy.deepcopy(model)
    optimize_(model, x, source=source, mode="training")
    found = []
    for each in (model, plain):
        torch.manual_seed(0)
        found.append(each.train()(x))
    assert close(*found)


def test_forward_set_on_a_tuned_layer_is_called(source: Local, x: Any) -> None:
    """Other packages, such as accelerate, set a ``forward`` on a layer."""
    model = layers(nn.BatchNorm2d(6), nn.ReLU6())
    plain = copy.deepcopy(model)
    optimize_(model, x, source=source)
    compiled = torch.compile(model, backend="eager")
    assert close(outputs(compiled, x), outputs(plain, x))
    for each in (model, plain):
        own = each[0].forward
        each[0].forward = lambda given, own=own: own(given) + 0.5 * given
    with pytest.warns(UserWarning, match="its forward was replaced"):
        assert close(outputs(model, x), outputs(plain, x))
    assert close(outputs(compiled, x), outputs(plain, x))
    torch.compiler.reset()


def test_norm_computes_again_if_its_class_is_changed(source: Local, x: Any) -> None:
    model = layers(nn.BatchNorm2d(6), nn.ReLU6())
    plain = copy.deepcopy(model)
    optimize_(model, x, source=source)
    for each in (model, plain):
        each[1].__class__ = Halved
    with pytest.warns(UserWarning, match="a module that it took in has another class now"):
        assert close(outputs(model, x), outputs(plain, x))


TRANSFORMS = {
    "grad": lambda model, x: grad(
        lambda bias: functional_call(model, {"2.bias": bias}, (x,)).sum()
    )(torch.ones(6)),
    "vmap": lambda model, x: vmap(lambda scale: (model(x) * scale).sum())(torch.arange(3.0)),
    "jvp": lambda model, x: torch.func.jvp(
        lambda bias: functional_call(model, {"2.bias": bias}, (x,)), (torch.ones(6),),
        (torch.ones(6),),
    )[1],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_of_tensors_outside_the_layer_equal_pytorchs(
    source: Local, x: Any, transform: Any, mode: Any
) -> None:
    model = layers(nn.ReLU6(), nn.Conv2d(6, 6, 1))
    model[0].bias = nn.Parameter(torch.randn(6))
    plain = transform(model, x)
    assert optimize_(model, x, source=source, mode=mode).rows[0].by == "tuned"
    assert close(transform(model, x), plain)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
def test_forward_mode_tangent_of_only_the_norm_weight_equals_pytorchs(
    source: Local, x: Any
) -> None:
    model = layers(nn.BatchNorm2d(6), nn.ReLU6()).requires_grad_(False)

    def tangent() -> Any:
        with forward_ad.dual_level():
            weight = forward_ad.make_dual(model[1].weight, torch.ones(6))
            return forward_ad.unpack_dual(functional_call(model, {"1.weight": weight}, (x,)))[1]

    plain = tangent()
    optimize_(model, x, source=source)
    assert close(tangent(), plain)
