"""Compiled models in which a layer and the modules that it takes in are not in the same graph."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = [
    pytest.mark.torch,
    # PyTorch's own, if a graph begins with a tensor that has a gradient function
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402

MODES: dict[str, tuple[bool, Callable[[], AbstractContextManager[Any]]]] = {
    "inference": (False, torch.no_grad),
    "gradients": (False, nullcontext),
    "training": (True, nullcontext),
    "training without gradients": (True, torch.no_grad),
    "autocast": (False, lambda: torch.autocast("cpu", torch.bfloat16)),
}


class Broken(nn.Module):
    """A depthwise layer, a break of the graph, and a norm with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.bn, self.act = nn.BatchNorm2d(6), nn.ReLU6()
        self.bn.running_mean.uniform_(-1.0, 1.0)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        torch._dynamo.graph_break()
        return self.act(self.bn(y))


class Whole(Broken):
    """The same without a break."""

    def forward(self, x: Any) -> Any:
        return self.act(self.bn(self.conv(x)))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def everything(model: Any) -> Any:
    return torch.compile(model, backend="eager")


def the_layer_alone(model: Any) -> Any:
    model.conv.compile(backend="eager")
    return model


def all_but_the_layer(model: Any) -> Any:
    model.bn.compile(backend="eager")
    model.act.compile(backend="eager")
    return model


@pytest.mark.parametrize(
    ("make", "compiled"),
    [
        (Broken, everything),
        (Whole, everything),
        (Whole, the_layer_alone),
        (Whole, all_but_the_layer),
    ],
)
@pytest.mark.parametrize(("trains", "context"), MODES.values(), ids=MODES)
def test_norm_and_activation_are_computed_once_across_graphs(
    source: Local,
    x: Any,
    make: type[Broken],
    compiled: Callable[[Any], Any],
    trains: bool,
    context: Callable[[], AbstractContextManager[Any]],
) -> None:
    plain = make().eval()
    model = copy.deepcopy(plain)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == ["BatchNorm2d", "ReLU6"]
    called = compiled(model)
    plain.train(trains)
    model.train(trains)
    for _ in range(2):
        with context():
            assert close(called(x), plain(x))
    assert close(model.bn.running_mean, plain.bn.running_mean)
    assert model.bn.num_batches_tracked == plain.bn.num_batches_tracked


def test_gradients_pass_a_graph_break(source: Local, x: Any) -> None:
    plain = Broken().eval()
    model = copy.deepcopy(plain)
    optimize_(model, x, source=source)
    everything(model)(x).square().sum().backward()
    plain(x).square().sum().backward()
    for own, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert close(own.grad, expected.grad)
