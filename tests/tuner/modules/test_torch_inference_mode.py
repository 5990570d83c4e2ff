"""Calls under ``torch.enable_grad()`` inside ``torch.inference_mode()``: PyTorch records nothing
there, so kernels compute what they compute without gradients."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close  # noqa: E402

import tuner.torch  # noqa: E402
from tuner.torch.modules import DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


@pytest.fixture(params=["layer", "layer with a norm", "operator by name"])
def pair(
    request: pytest.FixtureRequest, trained: Local, x: Any
) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Yield what PyTorch computes, and the same by kernels."""
    tuner.torch.use(trained)
    conv = torch.nn.Conv2d(6, 6, 3, padding=1, groups=6)
    if request.param == "layer":
        yield conv, DepthwiseConv2d.of(conv, source=trained)
    elif request.param == "layer with a norm":
        plain = Block(lambda block, y: block.bn(y)).eval()
        tuned = copy.deepcopy(plain)
        tuner.torch.optimize_(tuned, x, source=trained)
        yield plain, tuned
    else:
        called = torch.ops.convtune.depthwise_conv2d
        yield conv, lambda x: called(x, conv.weight, conv.bias, padding=1)
    tuner.torch.use(None)
    torch.compiler.reset()


@pytest.mark.parametrize("is_own", [False, True], ids=["input from outside", "own input"])
def test_kernel_computes_with_gradients_enabled_in_inference_mode(
    pair: Any, x: Any, asked: list[bool], is_own: bool
) -> None:
    plain, tuned = pair
    with torch.inference_mode(), torch.enable_grad():
        given = x.clone() if is_own else x
        for _ in range(2):
            y = tuned(given)
            assert not y.requires_grad
            assert close(y, plain(given))
    assert asked[-1]
    assert tuned(x).requires_grad


def test_graph_with_gradients_enabled_in_inference_mode_equals_pytorchs(pair: Any, x: Any) -> None:
    plain, tuned = pair

    def enabled(x: Any) -> Any:
        with torch.enable_grad():
            return tuned(x * 1)

    # with aot_eager, PyTorch's own graph of a convolution and a norm fails
    compiled = torch.compile(enabled, backend="eager", fullgraph=True)
    for mode in (torch.inference_mode, torch.enable_grad):
        with mode():
            assert close(compiled(x), plain(x))
