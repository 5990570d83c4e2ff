"""Convolutions that a model calls as functions: they are seen, and reported with the way out."""

from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tuner.torch import capture, optimize_  # noqa: E402

pytestmark = pytest.mark.torch


def causal_conv1d(x: Any, weight: Any, bias: Any) -> Any:
    """As models of state spaces have it where no kernel of theirs is installed."""
    padding = weight.shape[-1] - 1
    y = functional.conv1d(
        x, weight=weight.unsqueeze(1), bias=bias, padding=padding, groups=x.shape[1]
    )
    return functional.silu(y[:, :, : x.shape[-1]])


class Mixer(nn.Module):
    """Has a convolution's parameters, and calls a function with them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(4, 2 * width), nn.Linear(width, 4)
        self.conv1d = nn.Conv1d(width, width, 4, groups=width, padding=3)

    def forward(self, x: Any) -> Any:
        y, gate = self.into(x).mT.chunk(2, dim=1)
        y = causal_conv1d(y, self.conv1d.weight.squeeze(1), self.conv1d.bias)
        return x + self.out((y * functional.silu(gate)).mT)


class Mamba(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Conv1d(4, 4, 3, padding=1)
        self.layers = nn.ModuleList([Mixer(6), Mixer(6), Mixer(8)])

    def forward(self, x: Any) -> Any:
        y = self.first(x.mT).mT
        for layer in self.layers:
            y = layer(y)
        return y


def test_functions_are_rows_of_the_report(source: Local) -> None:
    model, x = Mamba().eval(), torch.randn(2, 9, 4)
    with torch.no_grad():
        plain = model(x)
    report = optimize_(model, x, source=source)
    first, *rows = report.rows
    assert first.names == ["first"]
    assert [row.names for row in rows] == [[f"layers.{number}"] for number in range(3)]
    assert {(row.by, row.operator, row.calls) for row in rows} == {("pytorch", "conv1d", 1)}
    assert rows[2].shape == "float32 2x8x9 by 8x1x4"
    assert "torch.ops.convtune.conv1d" in rows[0].reason
    assert str(report).count("only modules are replaced") == 1
    with torch.no_grad():
        assert torch.equal(model(x), plain)


def test_they_have_no_workload(source: Local) -> None:
    layer, functions = capture(Mamba().eval(), torch.randn(1, 9, 4))
    assert (layer.names, functions.workload) == (["first"], None)
    assert (functions.calls, functions.names) == (3, [f"layers.{number}" for number in range(3)])


def test_what_is_left_out_is_left_out_here_too(source: Local) -> None:
    report = optimize_(
        Mamba().eval(), torch.randn(1, 9, 4), source=source,
        filter_fn=lambda module, name: name.startswith("layers.1"),
    )  # fmt: skip
    assert [row.names for row in report.rows] == [["layers.1"]]


class Several(nn.Module):
    """Functions that no operator is for, or that a convolution's module calls itself."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.deep = nn.Conv2d(4, 6, 3), nn.Conv2d(6, 6, 3, groups=6)
        self.weight = nn.Parameter(torch.randn(6, 6, 1, 1))

    def forward(self, x: Any) -> Any:
        y = functional.conv2d(self.deep(self.dense(x)), self.weight)
        return functional.conv2d(y, self.weight[:, :1], groups=6)


def test_only_what_an_operator_is_for_is_named(source: Local) -> None:
    report = optimize_(Several().eval(), torch.randn(1, 4, 9, 9), source=source)
    assert [(row.names, row.operator) for row in report.rows] == [
        (["deep"], "depthwise_conv2d"),
        (["the model"], "depthwise_conv2d"),
    ]


def test_a_call_that_fails_leaves_nothing_behind(source: Local) -> None:
    model = Mamba().eval()
    with pytest.raises(RuntimeError):
        capture(model, torch.randn(1, 9, 5))
    assert len(capture(model, torch.randn(1, 9, 4))) == 2
