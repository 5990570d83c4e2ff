"""The operators by name take one number for all axes, as PyTorch's functions do."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.nn import functional  # noqa: E402

import tuner.torch  # noqa: E402, F401  # registers the operators

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


def scripted(x: Any, w: Any) -> Any:
    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.convtune.depthwise_conv2d(x, w, None, 2, 1, dilation=2)
        return y

    return torch.jit.script(call)(x, w)


def exported(x: Any, w: Any) -> Any:
    class Called(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, w: Any) -> Any:
            return torch.ops.convtune.depthwise_conv2d(x, w, None, 2, 1, dilation=2)

    return torch.export.export(Called(), (x, w)).module()(x, w)


def by_overload(x: Any, w: Any) -> Any:
    return torch.ops.convtune.depthwise_conv2d.default(x, w, stride=2, padding=[1], dilation=2)


@pytest.mark.parametrize("call", [scripted, exported, by_overload])
def test_operator_takes_one_number_for_all_axes(call: Any) -> None:
    x, w = torch.randn(2, 3, 12, 15), torch.randn(3, 1, 3, 3)
    expected = functional.conv2d(x, w, None, stride=2, padding=1, dilation=2, groups=3)
    torch.testing.assert_close(call(x, w), expected)
