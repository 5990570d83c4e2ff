"""A replacement can be called, and asked for its shape, like the layer that it replaces."""

from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import DepthwiseConv2d, capture, optimize_, restore_  # noqa: E402


class ByName(Block):
    """A block that calls its layer with the input by name."""

    def forward(self, x: Any) -> Any:
        return self.act(self.bn(self.conv(input=self.first(x))))


def test_layer_called_with_keyword_input_is_captured_and_replaced(source: Local, x: Any) -> None:
    model = ByName(lambda *_: None).eval()
    plain = outputs(model, x)
    assert [each.names for each in capture(model, x)] == [["conv"]]
    (row,) = optimize_(model, x, source=source).rows
    assert (row.by, row.takes_in) == ("tuned", ["BatchNorm2d", "ReLU6"])
    assert close(outputs(model, x), plain)
    optimize_(model, source=source)
    assert close(outputs(model, x), plain)
    assert isinstance(model.conv, DepthwiseConv2d)
    restore_(model)
    assert torch.equal(outputs(model, x), plain)


class AsksForShapes(nn.Module):
    """A model that reads its layer's attributes, as models do that compute output lengths or cut
    off what padding adds."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Any) -> Any:
        conv = self.conv
        reach = conv.dilation[0] * (conv.kernel_size[0] - 1)
        length = (x.shape[-1] + 2 * conv.padding[0] - reach - 1) // conv.stride[0] + 1
        assert conv.in_channels == conv.out_channels == conv.groups == x.shape[1]
        return self.conv(x)[..., : min(length, x.shape[-1])]


@pytest.mark.parametrize(
    ("conv", "shape"),
    [
        (nn.Conv2d(6, 6, 3, padding=1, groups=6), (2, 6, 7, 9)),
        (nn.Conv1d(6, 6, 3, padding=2, groups=6), (2, 6, 20)),
    ],
    ids=["depthwise_conv2d", "causal conv1d"],
)
def test_model_can_read_shape_attributes_of_a_replaced_layer(
    source: Local, conv: Any, shape: tuple[int, ...]
) -> None:
    model, x = AsksForShapes(conv).eval(), torch.randn(shape)
    plain = outputs(model, x)
    optimize_(model, source=source)
    assert model.conv is not conv
    assert close(outputs(model, x), plain)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert close(outputs(compiled, x), plain)
    torch.compiler.reset()
    restore_(model)
    for each in capture(model, x):
        assert each.workload is not None, each.reason
