"""Modules that a layer has taken in, but that other models or calls use too. They pass on only the
layer's own output, and compute everything else."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_, restore_  # noqa: E402


class Net(nn.Module):
    """A depthwise layer with a norm and an activation, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.bn, self.act, self.head = nn.BatchNorm2d(6), nn.ReLU6(), nn.Conv2d(6, 2, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.act(self.bn(self.conv(x))))


@pytest.fixture
def net() -> Net:
    model = Net()
    model.bn.running_mean.uniform_(-1.0, 1.0)
    model.bn.running_var.uniform_(0.2, 2.0)
    return model.eval()


@pytest.fixture
def fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def features_of(model: nn.Module) -> nn.Sequential:
    """Return a second model of the first one's children, without the head."""
    return nn.Sequential(*list(model.children())[:-1])


def compiled(model: Any) -> Any:
    return torch.compile(model, backend="eager")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("call", [lambda model: model, compiled], ids=["eager", "compiled"])
def test_second_model_of_the_same_modules_computes_as_before(
    source: Local, x: Any, net: Net, call: Any
) -> None:
    features = features_of(net)
    plain, part = outputs(net, x), outputs(features, x)
    for first, second in ((net, features), (features, net)):
        expected = {net: plain, features: part}
        (row,) = optimize_(first, x, source=source).rows
        assert row.takes_in == ["BatchNorm2d", "ReLU6"]
        one, other = call(first), call(second)
        for _ in range(2):
            assert close(outputs(one, x), expected[first])
            assert close(outputs(other, x), expected[second])
        restore_(first)


def test_second_model_of_the_same_modules_can_be_optimised_too(
    source: Local, x: Any, net: Net
) -> None:
    features = features_of(net)
    plain, part = outputs(net, x), outputs(features, x)
    optimize_(net, x, source=source)
    optimize_(features, x, source=source)
    assert close(outputs(features, x), part)
    with pytest.warns(UserWarning, match="a module that it took in has another forward"):
        assert close(outputs(net, x), plain)
    assert close(outputs(features, x), part)
    restore_(features)
    assert close(outputs(net, x), plain)
    assert close(outputs(features, x), part)


def test_second_model_of_the_same_modules_trains_as_before(source: Local, x: Any, net: Net) -> None:
    features = features_of(net)
    optimize_(net, x, source=source)
    features.train()
    features(x).sum().backward()
    assert net.bn.num_batches_tracked == 1
    assert net.bn.weight.grad is not None


def test_shared_activation_computes_in_other_models(source: Local, x: Any) -> None:
    act = nn.SiLU()
    one = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6), act).eval()
    other, z = nn.Sequential(nn.Linear(4, 4), act), torch.randn(3, 4)
    plain = outputs(other, z)
    optimize_(one, x, source=source)
    assert close(outputs(other, z), plain)
    assert close(outputs(one[1:], x), nn.functional.silu(x))
    for each in (one, compiled(one)):
        y = outputs(each, x)
        assert close(outputs(act, y), nn.functional.silu(y))


def test_fused_activation_computes_if_its_forward_is_called(
    source: Local, x: Any, net: Net
) -> None:
    class Twice(Net):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + self.act.forward(torch.full((2, 1, 1), 8.0))

    model = Twice().eval()
    model.load_state_dict(net.state_dict())
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == ["BatchNorm2d", "ReLU6"]
    assert close(outputs(model, x), plain)


@pytest.mark.usefixtures("fresh")
def test_model_is_right_if_the_graph_breaks_before_the_norm(
    source: Local, x: Any, net: Net
) -> None:
    class Broken(Net):
        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            torch._dynamo.graph_break()
            return self.head(self.act(self.bn(y)))

    model = Broken().eval()
    model.load_state_dict(net.state_dict())
    plain = outputs(model, x)
    optimize_(model, x, source=source)
    assert close(outputs(compiled(model), x), plain)


@pytest.mark.usefixtures("fresh")
def test_model_is_right_if_each_module_is_compiled_by_itself(
    source: Local, x: Any, net: Net
) -> None:
    plain = outputs(net, x)
    optimize_(net, x, source=source)
    for child in net.children():
        child.compile(backend="eager")
    for _ in range(2):
        assert close(outputs(net, x), plain)


@pytest.mark.usefixtures("fresh")
def test_model_is_right_if_only_the_layer_is_compiled(source: Local, x: Any, net: Net) -> None:
    plain = outputs(net, x)
    optimize_(net, x, source=source)
    net.conv.compile(backend="aot_eager")
    for _ in range(2):
        assert close(outputs(net, x), plain)


def test_layer_outputs_may_be_used_later_and_in_other_threads(
    source: Local, x: Any, net: Net
) -> None:
    given = [x, 2 * x, -x]
    plain = [outputs(net, each) for each in given]
    optimize_(net, x, source=source)
    with torch.no_grad(), ThreadPoolExecutor(2) as threads:
        waiting = [net.conv(each) for each in given]

        def rest(y: Any) -> Any:
            with torch.no_grad():
                return net.head(net.act(net.bn(y)))

        for y, expected in zip(threads.map(rest, waiting), plain, strict=True):
            assert close(y, expected)


def test_norm_is_not_applied_again_to_a_cloned_output(source: Local, x: Any, net: Net) -> None:
    """The layer computed the copy's values, so nothing may compute them again."""
    plain = outputs(net, x)
    optimize_(net, x, source=source)
    with torch.no_grad():
        for _ in range(2):
            y = net.act(net.bn(net.conv(x).clone()))
            assert close(net.head(y), plain)
