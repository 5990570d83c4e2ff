"""The modules' constructors refuse arguments that no operator can compute."""

from typing import Any

import pytest

from tuner.client.local import Local
from tuner.errors import WrongArgument

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tuner.torch import Conv1d, DepthwiseConv2d  # noqa: E402


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stride": 0}, "stride is 0, and must be a whole number of 1 or more"),
        ({"stride": (1,)}, r"stride is \(1,\)"),
        ({"dilation": 1.5}, r"dilation is 1\.5"),
        ({"padding": 1}, r"padding is 1, and must be 2 .* the zeros \(before, behind\)"),
        ({"padding": "same"}, "padding is 'same'"),
        ({"padding": (-1, 0)}, r"padding is \(-1, 0\), .* of 0 or more"),
        ({"mode": "causall"}, "mode is 'causall', and must be one of full, same, valid, causal"),
        ({"kind": "corr"}, "kind is 'corr', and must be one of convolve, correlate"),
        ({"groups": 0}, "groups is 0"),
        ({"groups": 4}, "groups is 4"),
        ({"bias": torch.zeros(3)}, r"bias has shape \(3,\), and must have \(6,\)"),
        ({"weight": [1.0, 2.0]}, "weight is a list, and must be a tensor"),
        ({"weight": torch.tensor(1.0)}, r"but has \(\)"),
        ({"weight": torch.ones(5, 1, 3)}, r"but has \(5, 1, 3\), and groups is 6"),
        ({"source": "http://here"}, "source is a str"),
    ],
)
def test_conv1d_refuses_wrong_arguments(given: dict[str, Any], says: str) -> None:
    """``Conv1d`` names the argument that is wrong and what it must be."""
    made: dict[str, Any] = {"weight": torch.ones(6, 1, 3), "groups": 6, "source": None}
    with pytest.raises(WrongArgument, match=says):
        Conv1d(**(made | given))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stride": 2.0}, r"stride is 2\.0, and must be a whole number of 1 or more"),
        ({"stride": 5}, "stride is 5, and the operator takes 1 to 4"),
        ({"padding": 0}, r"padding is 0, and must be 4 .* \(top, left, bottom, right\)"),
        ({"padding": (1, 1)}, r"padding is \(1, 1\)"),
        ({"padding": "valid"}, "padding is 'valid'"),
        ({"padding": (0, 0, -1, 0)}, "of 0 or more"),
        ({"dilation": (1, 1)}, r"dilation is \(1, 1\)"),
        ({"channels": 0}, "channels is 0"),
        ({"bias": torch.zeros(5)}, r"bias has shape \(5,\), and must have \(6,\)"),
    ],
)
def test_depthwise_conv2d_refuses_wrong_arguments(given: dict[str, Any], says: str) -> None:
    """``DepthwiseConv2d`` names the argument that is wrong and what it must be."""
    made: dict[str, Any] = {"weight": torch.ones(6, 1, 3, 3), "source": None}
    with pytest.raises(WrongArgument, match=says):
        DepthwiseConv2d(**(made | given))


def test_new_activation_is_checked_and_computed(source: Local) -> None:
    """The tuned kernel computes the activation too, so it is replaced if the activation changes."""
    torch.manual_seed(4)
    weight, bias, x = torch.randn(4, 1, 4), torch.randn(4), torch.randn(2, 4, 61)
    module = Conv1d(
        weight, bias, source=source, mode="causal", kind="correlate", groups=4, activation="silu"
    )
    padded = torch.nn.functional.pad(x, (3, 0))
    sums = torch.nn.functional.conv1d(padded, weight, bias, groups=4)
    with torch.no_grad():
        assert torch.allclose(module(x), torch.nn.functional.silu(sums), atol=1e-5)
        assert module.used == "tuned"
        module.activation = "none"
        assert torch.allclose(module(x), sums, atol=1e-5)
    with pytest.raises(WrongArgument, match="activation is 'tanh'"):
        module.activation = "tanh"  # type: ignore[assignment]
    assert module.activation == "none"
