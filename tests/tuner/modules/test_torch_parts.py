"""Layers on parts of tensors, which are not dense in memory: PyTorch's convolution copies them
first, and so do the tuned layers."""

from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from tuner.torch import capture  # noqa: E402
from tuner.torch.modules import DepthwiseConv2d  # noqa: E402

pytestmark = pytest.mark.torch

SHAPE = (2, 6, 9, 20)
LAST = torch.channels_last
PARTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "some channels": ("tuned", lambda x: torch.cat([x, x], 1).to(memory_format=LAST)[:, :6]),
    "some columns": ("tuned", lambda x: torch.cat([x, x], 3).to(memory_format=LAST)[..., :20]),
    "some planes": ("pytorch", lambda x: torch.cat([x, x], 1)[:, :6]),
    "rows beside each other": ("pytorch", lambda x: x.mT.contiguous().mT),
}
"""For each part: what computes the layer, and the function that takes the part of a tensor. The
layer is tuned for channels last only."""


def layer(source: Local) -> Any:
    torch.manual_seed(6)
    weight = torch.randn(6, 1, 3, 5)
    return DepthwiseConv2d(weight, source=source, padding=(0, 2, 1, 2))


@pytest.mark.parametrize("part", PARTS)
def test_layer_on_part_of_a_tensor_has_pytorchs_values_and_strides(
    source: Local, part: str
) -> None:
    """The output has PyTorch's values and strides, whether a kernel or PyTorch computes it."""
    module, (used, taken) = layer(source), PARTS[part]
    x = taken(torch.randn(SHAPE))
    assert not module.is_dense(x)
    with torch.no_grad():
        for _ in range(2):
            y, reference = module(x), module.plain(x, module.weight, None)
            assert torch.allclose(y, reference, atol=1e-5)
            assert y.stride() == reference.stride()
            assert module.used == used
        other = torch.randn(SHAPE).to(memory_format=LAST)
        assert torch.allclose(module(other), module.plain(other, module.weight, None), atol=1e-5)


def test_compiled_layer_on_part_of_a_tensor_keeps_channels_last(source: Local) -> None:
    module = layer(source)
    x = PARTS["some channels"][1](torch.randn(SHAPE))
    compiled = torch.compile(module, fullgraph=True, dynamic=False, backend="aot_eager")
    with torch.no_grad():
        for _ in range(2):
            y = compiled(x)
            assert torch.allclose(y, module.plain(x, module.weight, None), atol=1e-5)
            assert y.is_contiguous(memory_format=LAST)
    assert module.used == "tuned"


class Mixed(nn.Module):
    """A layer with a different kernel size for each half of the channels, as in MixNet."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(6, 6, size, padding=size // 2, groups=6) for size in (3, 5)
        )

    def forward(self, x: Any) -> Any:
        parts = x.chunk(2, dim=1)
        return torch.cat([conv(part) for conv, part in zip(self.convs, parts, strict=True)], 1)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_workload_of_part_of_a_tensor_has_the_layout_of_the_whole(layout: str) -> None:
    """A part of a tensor is captured in the layout of the whole tensor."""
    x = torch.randn(1, 12, 8, 8)
    found = capture(Mixed().eval(), x.to(memory_format=LAST) if layout == "NHWC" else x)
    fields: list[Any] = [each.workload for each in found]
    assert [(each.layout, each.kernel) for each in fields] == [(layout, (3, 3)), (layout, (5, 5))]
