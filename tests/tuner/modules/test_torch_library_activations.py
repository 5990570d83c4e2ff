"""Activations of transformers and timm, which wrap PyTorch's functions in modules of their own."""

from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tuner.torch import capture, optimize_  # noqa: E402

pytestmark = pytest.mark.torch


class SiLUActivation(nn.Module):
    """A stand-in for transformers' module."""

    def forward(self, input: Any) -> Any:  # noqa: A002
        return functional.silu(input)


class GELUActivation(nn.Module):
    """A stand-in for transformers' module."""

    def __init__(self, use_gelu_python: bool = False) -> None:
        super().__init__()
        self.act = self._gelu_python if use_gelu_python else functional.gelu

    def _gelu_python(self, input: Any) -> Any:  # noqa: A002
        return input * 0.5 * (1.0 + torch.erf(input / 2**0.5))

    def forward(self, input: Any) -> Any:  # noqa: A002
        return self.act(input)


class GELU(nn.Module):
    """A stand-in for timm's module."""

    def forward(self, input: Any) -> Any:  # noqa: A002
        return functional.gelu(input)


class OtherSiLU(SiLUActivation):
    """A user's module, which may compute anything."""


SiLUActivation.__module__ = GELUActivation.__module__ = "transformers.activations"
GELU.__module__ = "timm.layers.activations"


@pytest.mark.parametrize(
    ("module", "activation"),
    [
        (SiLUActivation(), "silu"),
        (GELUActivation(), "gelu"),
        (GELU(), "gelu"),
        (GELUActivation(use_gelu_python=True), "none"),
        (OtherSiLU(), "none"),
    ],
)
def test_workload_has_the_activation_of_a_library_module(
    x: Any, module: nn.Module, activation: str
) -> None:
    (layer,) = capture(Block(usual, module).eval(), x)
    assert layer.workload is not None
    assert layer.workload.activation == activation


def test_layer_takes_in_the_activation_of_a_library_module(source: Local, x: Any) -> None:
    model = Block(usual, SiLUActivation()).eval()
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == ["BatchNorm2d", "SiLUActivation"]
    assert close(outputs(model, x), plain)
    assert model.conv.used == "tuned"
