"""A replaced layer is called, and asked for its shape, as the one that it replaces."""

from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs  # noqa: E402

from tuner.torch import DepthwiseConv2d, capture, optimize_, restore_  # noqa: E402


class ByName(Block):
    def forward(self, x: Any) -> Any:
        return self.act(self.bn(self.conv(input=self.first(x))))


def test_a_layer_is_seen_and_replaced_if_its_input_is_given_by_name(source: Local, x: Any) -> None:
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
