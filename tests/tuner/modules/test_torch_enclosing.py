"""Layers or modules taken in that lie inside other modules: changes of these count too."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


class Around(nn.Module):
    """A depthwise layer inside a module of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)

    def forward(self, x: Any) -> Any:
        return self.conv(x)


class NormAct(nn.Module):
    """A norm and an activation inside a module of their own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.act = nn.BatchNorm2d(channels), nn.ReLU6()
        self.norm.running_mean.uniform_(-1.0, 1.0)

    def forward(self, x: Any) -> Any:
        return self.act(self.norm(x))


class Net(nn.Module):
    """``Around`` and ``NormAct``, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Around(6), NormAct(6)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x))


class Adapter(nn.Module):
    """A module that adds to another's output."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Any) -> Any:
        return self.base(x) + x


def doubled(*given: Any) -> Any:
    return given[-1] * 2


def nested() -> nn.Sequential:
    """Return a model of sequences, the layer in one of them, norm and activation in another."""
    norm = NormAct(6)
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)),
        nn.Sequential(norm.norm, norm.act),
    )


def replace(name: str, make: Callable[[nn.Module], nn.Module]) -> Callable[[Any], Any]:
    def change(model: Any) -> Any:
        setattr(model, name, make(getattr(model, name)))
        return model

    return change


def hooked(name: str, register: str, hook: Callable[..., Any]) -> Callable[[Any], Any]:
    def change(model: Any) -> Any:
        getattr(getattr(model, name), register)(hook)
        return model

    return change


def given_a_forward(name: str) -> Callable[[Any], Any]:
    def change(model: Any) -> Any:
        module = getattr(model, name)
        before = module.forward
        module.forward = lambda x: before(x * 2)
        return model

    return change


def other_norm(_: nn.Module) -> nn.Module:
    torch.manual_seed(7)
    return NormAct(6).eval()


def inserted(model: Any) -> Any:
    model.insert(1, nn.Tanh())
    return model


def appended(model: Any) -> Any:
    model[0].append(nn.Tanh())
    return model


def without_the_last(model: Any) -> Any:
    del model[1]
    return model


SEEN_IN_GRAPHS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "an adapter around the layer's module": (Net, replace("first", Adapter)),
    "another module of norm and activation": (Net, replace("last", other_norm)),
    "no norm": (Net, replace("last", lambda _: nn.Identity())),
    "a sequence between sequences": (nested, inserted),
    "the first sequence in a new one": (nested, lambda model: model[:1]),
    "the layer's sequence in another order": (
        nested,
        lambda m: nn.Sequential(m[0], nn.Tanh(), m[1]),
    ),
    "one more module behind the layer": (nested, appended),
}
OTHERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a hook around the layer": (Net, hooked("first", "register_forward_hook", doubled)),
    "a hook around the norm": (
        Net,
        hooked("last", "register_forward_pre_hook", lambda _, given: (given[0] * 2,)),
    ),
    "a forward around the layer": (Net, given_a_forward("first")),
    "a forward around the norm": (Net, given_a_forward("last")),
    "a sequence that is gone": (nested, without_the_last),
}
ALL = SEEN_IN_GRAPHS | OTHERS


def tuned_and_plain(source: Local, x: Any, make: Callable[[], Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = make().eval()
    plain = copy.deepcopy(model)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == ["BatchNorm2d", "ReLU6"]
    assert close(outputs(model, x), outputs(plain, x))
    return model, plain


@pytest.mark.parametrize(("make", "change"), ALL.values(), ids=ALL)
def test_layer_notices_a_change_of_an_enclosing_module(
    source: Local, x: Any, make: Callable[[], Any], change: Callable[[Any], Any]
) -> None:
    model, plain = tuned_and_plain(source, x, make)
    new, same = change(model), change(plain)
    with pytest.warns(UserWarning, match="computes only its convolution now"):
        y = outputs(new, x)
    assert close(y, outputs(same, x))
    assert close(outputs(model, x), outputs(plain, x))


@pytest.mark.parametrize(("make", "change"), SEEN_IN_GRAPHS.values(), ids=SEEN_IN_GRAPHS)
def test_graph_notices_a_change_of_an_enclosing_module(
    source: Local, x: Any, make: Callable[[], Any], change: Callable[[Any], Any]
) -> None:
    model, plain = tuned_and_plain(source, x, make)
    assert close(outputs(torch.compile(model, backend="eager"), x), outputs(plain, x))
    new, same = change(model), change(plain)
    with pytest.warns(UserWarning, match="computes only its convolution now"):
        y = outputs(torch.compile(new, backend="eager"), x)
    assert close(y, outputs(same, x))
    torch.compiler.reset()


@pytest.mark.parametrize("make", [Net, nested])
def test_copying_or_wrapping_the_whole_model_keeps_the_norm_fused(
    source: Local, x: Any, make: Callable[[], Any]
) -> None:
    model, plain = tuned_and_plain(source, x, make)
    for same in (copy.deepcopy(model), nn.Sequential(model), nn.Sequential(*model.children())):
        assert close(outputs(same, x), outputs(plain, x))
        assert any(getattr(each, "norm", None) is not None for each in same.modules())


def test_hook_around_a_layer_sees_the_same_output_after_optimize(source: Local, x: Any) -> None:
    model, seen = Net().eval(), []
    model.first.register_forward_hook(lambda _module, _given, y: seen.append(y))
    outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == []
    outputs(model, x)
    assert close(seen[-1], seen[0])
