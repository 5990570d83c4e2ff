"""The memory layouts of the inputs of a model's layers that follow tuned layers."""

from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import capture, optimize_  # noqa: E402


def two_layers(first: nn.Module) -> Any:
    """Return a model whose second layer is tuned for channels last."""
    return nn.Sequential(first, nn.Conv1d(4, 6, 5, padding=2, bias=False)).eval()


@pytest.fixture
def last() -> Any:
    """Return a signal with its channels last."""
    return torch.randn(2, 61, 3).mT


def test_layer_passes_channels_last_on_to_the_next_layer(last: Any) -> None:
    layouts = [each.workload.layout for each in capture(two_layers(nn.Conv1d(3, 4, 1)), last)]
    assert layouts == ["NWC", "NWC"]


def test_untunable_layer_passes_pytorchs_layout_on(last: Any) -> None:
    stays = nn.Conv1d(3, 4, 3, padding=1, padding_mode="reflect")
    first, second = capture(two_layers(stays), last)
    assert (first.workload, second.workload.layout) == (None, "NCW")


@pytest.mark.parametrize(("mode", "layout"), [("inference", "NWC"), ("training", "NCW")])
def test_norm_passes_channels_last_on_only_if_it_is_taken_in(
    last: Any, mode: Any, layout: str
) -> None:
    """In training the norm stays PyTorch's, which does not keep channels last."""
    between = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.SiLU())
    found = capture(two_layers(between), last, mode=mode)
    forward = [each.workload for each in found if each.workload.direction == "forward"]
    assert [each.layout for each in forward] == ["NWC", layout]


def test_layer_stays_pytorchs_if_the_model_views_its_rows(last: Any) -> None:
    class Rows(nn.Module):
        def forward(self, y: Any) -> Any:
            return y.view(-1, y.shape[-1]).view(y.shape)

    first, second = capture(two_layers(nn.Sequential(nn.Conv1d(3, 4, 1), Rows())), last)
    assert "memory layout of their outputs" in first.reason
    assert second.workload.layout == "NCW"


def test_layer_behind_an_untuned_layer_gets_pytorchs_layout(source: Local, last: Any) -> None:
    model = two_layers(nn.Conv1d(3, 4, 1))
    report = optimize_(model, last, source=source)
    first, second = report.rows
    assert (first.by, first.shape.endswith("NWC")) == ("pytorch", True)
    assert (second.by, second.shape.endswith("NWC")) == ("pytorch", False)


def test_layer_behind_a_tuned_layer_gets_channels_last(source: Local, last: Any) -> None:
    model = nn.Sequential(nn.Conv1d(4, 6, 5, padding=2, bias=False), nn.Conv1d(6, 4, 1)).eval()
    signal = torch.randn(2, 61, 4).mT
    plain = outputs(model, signal)
    report = optimize_(model, signal, source=source)
    assert [row.by for row in report.rows] == ["tuned", "pytorch"]
    assert report.rows[1].shape.endswith("NWC")
    assert close(outputs(model, signal), plain)
