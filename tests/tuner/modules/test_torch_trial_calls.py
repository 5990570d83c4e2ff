"""``optimize_`` calls the model on the example again and compares outputs. Layers whose replacement
changes the output, or makes the call fail, stay as they are."""

from collections import deque
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
from tuner.torch.modules import Tuned  # noqa: E402


def in_another_thread(block: Block, y: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return usual(block, y) + pool.submit(torch.sigmoid, y).result()


def unseen_by_any_mode(block: Block, y: Any) -> Any:
    with torch._C.DisableTorchFunction():
        other = torch.sigmoid(y)
    return usual(block, y) + other


def of(call: Any) -> Block:
    """Return a block in evaluation mode whose layer has a bias and whose output is ``call``'s."""
    model = Block(call, nn.ReLU6()).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    return model


@pytest.mark.parametrize("call", [in_another_thread, unseen_by_any_mode])
def test_nothing_is_taken_in_if_that_changes_the_examples_output(
    source: Local, x: Any, call: Any
) -> None:
    model = of(call)
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert close(outputs(model, x), plain)
    (row,) = report.rows
    assert (row.by, row.takes_in) == ("tuned", [])
    assert model.conv.used == "tuned"
    assert report.error is not None
    assert report.error < 1e-5
    said = "conv: BatchNorm2d and ReLU6 stay, because with them in the layer's kernel the example"
    assert said in str(report)


def test_only_layers_that_change_the_output_take_nothing_in(source: Local, x: Any) -> None:
    model = nn.Sequential(
        of(usual), of(in_another_thread), of(usual), of(unseen_by_any_mode)
    ).eval()
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    taken = [row.takes_in for row in report.rows]
    assert taken == [["BatchNorm2d", "ReLU6"], [], ["BatchNorm2d", "ReLU6"], []]
    assert [row.by for row in report.rows] == ["tuned"] * 4
    assert close(outputs(model, x), plain)


def test_layer_computes_the_cut_end_if_the_model_uses_it_unseen(source: Local) -> None:
    model, x = Whole().eval(), torch.randn(2, 4, 61)
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert (row.by, row.takes_in) == ("pytorch", [])
    assert " full " in row.shape
    assert close(outputs(model, x), plain)


class Whole(nn.Module):
    """A model that cuts off the end of its convolution's output, but also uses that end unseen by
    PyTorch's modes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv1d(4, 4, 4, groups=4, padding=3), nn.SiLU()

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        with torch._C.DisableTorchFunction():
            ends = y[..., -61:].sum()
        return self.act(y[..., : x.shape[-1]]) + ends


def test_small_or_coarsely_rounded_changes_of_the_output_are_found(source: Local, x: Any) -> None:
    def call(block: Block, y: Any) -> Any:
        with torch._C.DisableTorchFunction():
            other = torch.sigmoid(y)
        return usual(block, y) + 1e-4 * other

    assert optimize_(of(call), x, source=source).rows[0].takes_in == []
    rough = Rough().eval().bfloat16()
    signal = torch.randn(1, 1, 1001).bfloat16()
    (row,) = optimize_(rough, signal, source=source).rows
    assert (row.by, row.takes_in) == ("tuned", [])


class Rough(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv1d(1, 1, 7, padding=3, bias=False), nn.ReLU()

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        with torch._C.DisableTorchFunction():
            other = 0.1 * y
        return self.act(y) + other


@dataclass
class Given:
    features: Any
    of: Any = None


class Slotted:
    __slots__ = ("features", "unset")

    def __init__(self, features: Any) -> None:
        self.features = features


class SlottedByOneName:
    __slots__ = "features"  # noqa: PLC0205

    def __init__(self, features: Any) -> None:
        self.features = features


class SlottedPrivately:
    __slots__ = ("__features",)

    def __init__(self, features: Any) -> None:
        self.__features = features


class Listed(list[Any]):
    pass


GIVING: list[Callable[[Any], Any]] = [
    Given,
    Slotted,
    SlottedByOneName,
    SlottedPrivately,
    lambda y: Listed([y]),
    lambda y: deque([y]),
    lambda y: {y, y.mean(1)},
    lambda y: frozenset([y]),
    lambda y: SimpleNamespace(parts={"features": [y]}),
    lambda y: {"features": Given(3, of=(None, y))},
    lambda y: y.sum().item(),
    lambda y: (y, y.mean(1)),
    lambda y: {"features": y, "halved": [y / 2, y.mean()]},
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
    assert report.error < 1e-5


def test_an_output_that_holds_itself_and_its_model_is_compared(source: Local, x: Any) -> None:
    def call(block: Block, y: Any) -> Any:
        given = SimpleNamespace(features=usual(block, y), model=block, kind=Block)
        given.given = given
        return given

    report = optimize_(of(call), x, source=source)
    assert report.error is not None
    assert report.error < 1e-5


def test_layer_stays_pytorchs_if_its_kernels_output_is_wrong(
    source: Local, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Sequential(of(usual), of(usual)).eval()
    plain = outputs(model, x)
    by_kernel: Any = Tuned.by_kernel

    def off(layer: Any, *given: Any) -> Any:
        y = by_kernel(layer, *given)
        return y * 1.01 if layer.weight is model[0].conv.weight else y

    monkeypatch.setattr(Tuned, "by_kernel", off)
    report = optimize_(model, x, source=source)
    assert [row.by for row in report.rows] == ["pytorch", "tuned"]
    assert "0.conv: its kernel's output differs from PyTorch's" in str(report)
    assert [type(block.conv) is nn.Conv2d for block in model] == [True, False]
    assert close(outputs(model, x), plain)


def test_bfloat16_layer_stays_pytorchs_if_its_kernel_is_10_percent_off(
    source: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that is 10 % off is found even in bfloat16: the layer stays PyTorch's."""
    model = nn.Sequential(nn.Conv1d(1, 1, 7, padding=3, bias=False)).eval().bfloat16()
    by_kernel: Any = Tuned.by_kernel
    monkeypatch.setattr(Tuned, "by_kernel", lambda *given: by_kernel(*given) * 1.1)
    (row,) = optimize_(model, torch.randn(1, 1, 1001).bfloat16(), source=source).rows
    assert (row.by, "differs from PyTorch's" in row.reason) == ("pytorch", True)


def test_training_takes_nothing_in_if_that_changes_gradients(trained: Local, x: Any) -> None:
    """In training a layer takes nothing in if another use of its output shows in the gradients."""

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


def test_layer_stays_pytorchs_if_the_model_changes_what_it_saves(trained: Local, x: Any) -> None:
    """ReLU6 saves its input, so its output may change in place; a layer saves its output."""

    def call(block: Block, y: Any) -> Any:
        y = block.act(y)
        y += 1
        return y

    model = of(call)
    report = optimize_(model, x, source=trained, mode="training")
    assert {row.by for row in report.rows} == {"pytorch"}
    assert "modified by an inplace operation" in str(report)
    model(x).sum().backward()


class AsksForItsClass(Block):
    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.conv(y) if type(self.conv) is nn.Conv2d else y


def test_layer_is_not_replaced_if_that_changes_the_examples_output(source: Local, x: Any) -> None:
    model = AsksForItsClass(usual).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert torch.equal(outputs(model, x), plain)
    assert type(model.conv) is nn.Conv2d
    (row,) = report.rows
    assert (row.by, report.tuned, report.error, report.after_ms) == ("pytorch", 0, None, None)
    assert "conv: with a tuned layer the example's output changes by" in str(report)


def takes_only_what_it_has(block: Block, y: Any) -> Any:
    if isinstance(block.conv, nn.Conv2d):
        return usual(block, y)
    raise TypeError("not a convolution,\nbut another layer")


def asks_for_what_it_set(block: Block, y: Any) -> Any:
    return usual(block, y) * block.conv.gain


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (takes_only_what_it_has, "TypeError: not a convolution,"),
        (asks_for_what_it_set, "AttributeError: 'DepthwiseConv2d' object has no attribute 'gain'"),
    ],
)
def test_layer_is_not_replaced_if_the_models_call_then_fails(
    source: Local, x: Any, call: Any, error: str
) -> None:
    model = nn.Sequential(of(call), of(usual)).eval()
    model[0].conv.gain = 2.0
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert close(outputs(model, x), plain)
    assert type(model[0].conv) is nn.Conv2d
    assert [row.by for row in report.rows] == ["pytorch", "tuned"]
    assert f"0.conv: with a tuned layer the example's call fails ({error}): " in str(report)


class AsksHowItLies(nn.Module):
    """A model that relies on strides: on a CPU, PyTorch's Conv1d returns contiguous samples even if
    its input's channels are contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 5, padding=2, bias=False)

    def forward(self, x: Any) -> Any:
        return self.conv(x.mT).view(2, -1)


def test_layer_is_not_replaced_if_the_model_relies_on_its_strides(source: Local) -> None:
    """If the model's call fails because of the replaced layer's strides, the layer stays."""
    model, signals = AsksHowItLies().eval(), torch.randn(2, 61, 4)
    plain = outputs(model, signals)
    report = optimize_(model, signals, source=source)
    assert torch.equal(outputs(model, signals), plain)
    assert "fails (RuntimeError: view size is not compatible" in str(report)


def test_only_layers_whose_class_the_model_checks_stay_pytorchs(source: Local, x: Any) -> None:
    asks = AsksForItsClass(usual)
    asks.conv.bias = nn.Parameter(torch.randn(6))
    model = nn.Sequential(of(usual), asks, of(usual)).eval()
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert [row.by for row in report.rows] == ["tuned", "pytorch", "tuned"]
    assert close(outputs(model, x), plain)


def test_layer_of_a_model_with_random_output_is_replaced(source: Local, x: Any) -> None:
    model = of(lambda block, y: usual(block, y) + torch.randn(y.shape))
    report = optimize_(model, x, source=source)
    assert report.rows[0].takes_in == ["BatchNorm2d", "ReLU6"]
    assert report.error is not None
    assert report.error > 1e-2


def test_layer_is_replaced_if_rounding_flips_the_sign_of_an_output(
    source: Local, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rounding difference may flip a sign, which changes the example's output by a lot at one
    element. The replacement is kept nevertheless, and the report gives the error."""
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
    """Return PyTorch's output with a relative error of 1e-6, in place of a kernel's."""
    return layer.plain(x, weight, bias, residual) * (1 + 1e-6)
