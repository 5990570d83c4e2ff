"""``restore_`` gives a ``forward`` that was set on a tuned layer to the model's own layer. If it
calls the tuned layer's former ``forward``, that computes as the model's own layer does."""

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

from tuner.torch import optimize_, restore_  # noqa: E402

pytestmark = pytest.mark.torch


def wraps(conv: Any) -> None:
    """Set a ``forward`` that calls the former ``forward``."""
    before = conv.forward
    conv.forward = lambda x: before(x) + 1


def binds(conv: Any) -> None:
    """Set a ``forward`` that is a method of the layer."""
    conv.forward = MethodType(lambda self, x: x * self.weight.sum(), conv)


CHANGES = {"a function": wraps, "a method": binds}


@pytest.mark.filterwarnings("ignore:DepthwiseConv2d computes only its convolution now")
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_restore_moves_a_forward_from_the_tuned_layer_to_the_models(
    source: Local, x: Any, change: Callable[[Any], None], called: bool
) -> None:
    model = Block(usual).eval()
    plain, conv = copy.deepcopy(model), model.conv
    optimize_(model, x, source=source)
    for each in (model, plain):
        change(each.conv)
    if called:
        assert close(outputs(model, x), outputs(plain, x))
    restore_(model)
    assert model.conv is conv
    assert close(outputs(model, x), outputs(plain, x))
    weight = torch.randn(6, 1, 3, 3)
    for each in (model, plain):
        each.conv.weight = nn.Parameter(weight.clone())
    assert close(outputs(model, x), outputs(plain, x))
    for each in (model, plain):
        parametrizations.weight_norm(each.conv)
        each.conv.parametrizations.weight.original0.data.mul_(2)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for call in (model, compiled):
        assert close(outputs(call, x), outputs(plain, x))
    torch.compiler.reset()
    for each in (model, plain):
        del each.conv.forward
    assert close(outputs(model, x), outputs(plain, x))


def test_restored_layer_with_its_own_forward_stays_pytorchs(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    optimize_(model, x, source=source)
    wraps(model.conv)
    restore_(model)
    expected = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert row.by == "pytorch"
    assert "has a forward of its own" in row.reason
    assert torch.equal(outputs(model, x), expected)
