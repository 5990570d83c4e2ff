"""Tuned layers under ``torch.fx.symbolic_trace``."""

from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402

from tuner.torch import optimize_  # noqa: E402
from tuner.torch.modules import DepthwiseConv2d  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_symbolic_trace_of_a_model_keeps_its_layers_as_nodes(
    source: Local, x: Any, mode: Any
) -> None:
    """Tools that quantise, prune or extract features trace a model symbolically. Its tuned layers
    stay leaves of the graph, with the norms and activations that they took in."""
    model = Block(usual).eval()
    model.conv.bias = torch.nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    optimize_(model, x, source=source, mode=mode)
    traced = torch.fx.symbolic_trace(model)
    assert close(outputs(traced, x), plain)
    assert model.conv.used == "tuned"
    assert [node.target for node in traced.graph.nodes] == [
        "x", "first", "conv", "bn", "act", "output",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:DepthwiseConv2d computes only its convolution now")
@pytest.mark.parametrize("before", [False, True], ids=["forward hook", "forward pre-hook"])
def test_symbolic_trace_records_a_hook_once(source: Local, x: Any, before: bool) -> None:
    model = Block(usual).eval()
    optimize_(model, x, source=source)
    if before:
        model.conv.register_forward_pre_hook(lambda module, given: (3 * given[0],))
    else:
        model.conv.register_forward_hook(lambda module, given, y: 3 * y)
    expected = outputs(model, x)
    assert close(outputs(torch.fx.symbolic_trace(model), x), expected)
    assert close(outputs(model, x), expected)


def test_symbolic_trace_records_a_hook_of_a_module_with_an_epilogue_once(source: Local) -> None:
    plain = torch.nn.Conv2d(3, 3, 3, padding=1, groups=3).requires_grad_(False)
    module = DepthwiseConv2d(plain.weight, plain.bias, source=source, activation="relu")
    module.register_forward_hook(lambda module, given, y: 3 * y)
    x = torch.randn(2, 3, 9, 20)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(module))
    assert close(traced(x), 3 * plain(x).relu())
