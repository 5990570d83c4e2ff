"""What takes a layer's output unseen, or asks for its class, shows in the example's output, and is
left as it is."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


def in_another_thread(block: Block, y: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return usual(block, y) + pool.submit(torch.sigmoid, y).result()


def unseen_by_any_mode(block: Block, y: Any) -> Any:
    with torch._C.DisableTorchFunction():
        other = torch.sigmoid(y)
    return usual(block, y) + other


def by_its_forward(block: Block, y: Any) -> Any:
    return usual(block, y) + block.act.forward(torch.full(y.shape, 8.0))


def of(call: Any) -> Block:
    model = Block(call, nn.ReLU6()).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    return model


@pytest.mark.parametrize("call", [in_another_thread, unseen_by_any_mode, by_its_forward])
def test_nothing_is_taken_in_if_the_output_is_another_one(source: Local, x: Any, call: Any) -> None:
    model = of(call)
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert close(outputs(model, x), plain)
    (row,) = report.rows
    assert (row.by, row.takes_in) == ("tuned", [])
    assert model.conv.used == "tuned"
    assert report.error is not None
    assert report.error < 1e-5
    said = "conv: BatchNorm2d and ReLU6 stay, because with them in kernels the example's output is"
    assert said in str(report)


@dataclass
class Given:
    features: Any
    of: Any = None


class Slotted:
    __slots__ = ("features", "unset")

    def __init__(self, features: Any) -> None:
        self.features = features


class Listed(list[Any]):
    pass


GIVING: list[Callable[[Any], Any]] = [
    Given,
    Slotted,
    lambda y: Listed([y]),
    lambda y: SimpleNamespace(parts={"features": [y]}),
    lambda y: {"features": Given(3, of=(None, y))},
    lambda y: y.sum().item(),
]


@pytest.mark.parametrize("give", GIVING)
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_an_output_of_any_class_is_compared(
    source: Local, x: Any, give: Callable[[Any], Any], mode: Any
) -> None:
    model = of(lambda block, y: give(in_another_thread(block, y)))
    report = optimize_(model, x, source=source, mode=mode)
    assert all(row.takes_in == [] for row in report.rows)
    assert report.tuned == 1
    assert report.error is not None


def test_an_output_that_holds_itself_and_its_model_is_compared(source: Local, x: Any) -> None:
    def call(block: Block, y: Any) -> Any:
        given = SimpleNamespace(features=usual(block, y), model=block, kind=Block)
        given.given = given
        return given

    report = optimize_(of(call), x, source=source)
    assert report.error is not None
    assert report.error < 1e-5


def test_so_it_is_if_gradients_are_others(trained: Local, x: Any) -> None:
    def call(block: Block, y: Any) -> Any:
        with torch._C.DisableTorchFunction():
            other = torch.sigmoid(y)
        return block.act(y) + other

    model = of(call)
    report = optimize_(model, x, source=trained, mode="training")
    assert [row.takes_in for row in report.rows] == [[]] * len(report.rows)
    assert model.conv.used == "tuned"
    assert report.error is not None
    assert report.error < 1e-4


class AsksForItsClass(Block):
    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.conv(y) if type(self.conv) is nn.Conv2d else y


def test_no_layer_is_replaced_if_the_output_is_another_one(source: Local, x: Any) -> None:
    model = AsksForItsClass(usual).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert torch.equal(outputs(model, x), plain)
    assert type(model.conv) is nn.Conv2d
    (row,) = report.rows
    assert (row.by, report.tuned, report.error, report.after_ms) == ("pytorch", 0, None, None)
    assert "conv: with tuned layers the example's output is another one" in str(report)


def test_a_model_that_draws_its_output_is_replaced(source: Local, x: Any) -> None:
    model = of(lambda block, y: usual(block, y) + torch.randn(y.shape))
    report = optimize_(model, x, source=source)
    assert report.rows[0].takes_in == ["BatchNorm2d", "ReLU6"]
    assert report.error is not None
    assert report.error > 1e-2


def test_an_output_that_jumps_is_no_other_one(
    source: Local, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some value rounding makes the sign another one."""
    before = of(usual)
    sums = outputs(before, x)
    level = float(sums[0, 0, 0, 0])

    def call(block: Block, y: Any) -> Any:
        return torch.sign(usual(block, y) - level)

    model = of(call)
    model.load_state_dict(before.state_dict())
    monkeypatch.setattr("tuner.torch.tuned_module.Tuned.computed", off_by_a_rounding)
    report = optimize_(model, x, source=source)
    assert report.rows[0].takes_in == ["BatchNorm2d", "ReLU6"]
    assert report.error == 1.0


def off_by_a_rounding(layer: Any, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
    return layer.plain(x, weight, bias, residual) * (1 + 1e-6)
