"""Tangents of operators by name, and of layers, in graphs of ``torch.compile``."""

from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.autograd import forward_ad  # noqa: E402
from torch.nn import functional  # noqa: E402

from tuner.torch.modules import DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.usefixtures("used"),
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
Call = Callable[[Any], Any]


def by_jvp(call: Call, x: Any, tangent: Any) -> Any:
    return torch.func.jvp(call, (x,), (tangent,))


def by_dual_level(call: Call, x: Any, tangent: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(call(forward_ad.make_dual(x, tangent)))


@pytest.mark.parametrize(
    ("way", "backend"),
    [(by_jvp, "eager"), (by_jvp, "aot_eager"), (by_dual_level, "aot_eager")],
)
@pytest.mark.parametrize("tuned", ["operator", "layer"])
def test_graph_keeps_the_tangent(source: Local, tuned: str, way: Any, backend: str) -> None:
    torch.manual_seed(6)
    x, tangent, w = torch.randn(2, 3, 9, 20), torch.randn(2, 3, 9, 20), torch.randn(3, 1, 3, 3)
    by_name = torch.ops.convtune.depthwise_conv2d
    layer = DepthwiseConv2d(w, source=source)

    def plain(x: Any) -> Any:
        return x + functional.conv2d(x, w, padding=1, groups=3)

    def convolve(x: Any) -> Any:
        return x + (by_name(x, w, padding=1) if tuned == "operator" else layer(x))

    graph = torch.compile(lambda x, tangent: way(convolve, x, tangent), backend=backend)
    with torch.no_grad():
        expected, found = way(plain, x, tangent), graph(x, tangent)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
