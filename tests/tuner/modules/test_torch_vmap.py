"""Layers and operators by name under ``torch.func.vmap``: PyTorch computes them there, and its own
convolutions give the same."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close  # noqa: E402
from torch import nn  # noqa: E402
from torch.func import functional_call, grad, jvp, vmap  # noqa: E402

from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.usefixtures("used"),
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


class ByName(nn.Module):
    """A convolution of each channel by itself, by the operator of that name."""

    def __init__(self, conv: Any, name: str) -> None:
        super().__init__()
        self.weight, self.bias = conv.weight, conv.bias
        self.call = getattr(torch.ops.convtune, name)

    def forward(self, x: Any) -> Any:
        return self.call(x, self.weight, self.bias, padding=1, groups=len(self.weight))


def three(kind: str, source: Local) -> tuple[Any, Any, Any]:
    """Return PyTorch's convolution of images or signals, a layer and an operator by name."""
    torch.manual_seed(4)
    if kind == "images":
        conv = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        return conv, DepthwiseConv2d.of(conv, source=source), ByName(conv, "depthwise_conv2d")
    conv = nn.Conv1d(6, 6, 3, padding=1, groups=6)
    return conv, Conv1d.of(conv, source=source), ByName(conv, "conv1d")


INPUTS: dict[str, Callable[[], Any]] = {
    "images": lambda: torch.randn(3, 2, 7, 9, 6).permute(0, 1, 4, 2, 3),
    "signals": lambda: torch.randn(3, 2, 9, 6).mT,
}
"""Three batches with their channels last."""


def over_weights(call: Any, several: Any) -> Any:
    weights = torch.stack([call.weight * scale for scale in (1, 2, 3)])
    return vmap(lambda weight: functional_call(call, {"weight": weight}, (several[0],)))(weights)


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "over inputs": lambda call, x: vmap(call.forward)(x),
    "over weights": over_weights,
    "of gradients": lambda call, x: vmap(grad(lambda x: call(x).square().sum()))(x),
    "in gradients": lambda call, x: grad(lambda x: vmap(call.forward)(x).square().sum())(x),
}


@pytest.mark.parametrize(
    ("kind", "compiled"), [("images", False), ("images", True), ("signals", False)]
)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_vmap_with_channels_last_equals_pytorchs(
    source: Local, kind: str, transform: str, compiled: bool
) -> None:
    plain, *tuned = three(kind, source)
    several, transformed = INPUTS[kind](), TRANSFORMS[transform]
    expected = transformed(plain, several)
    for call in tuned:
        run: Any = partial(transformed, call)
        if compiled:
            run = torch.compile(run, backend="aot_eager", fullgraph=True)
        assert close(run(several), expected)


def of_unmapped(call: Any, several: Any) -> Any:
    """Return outputs of an input that is not mapped, times numbers that are."""
    return vmap(lambda scale: scale * call(several[0]))(torch.arange(3.0))


def in_unmapped(call: Any, several: Any) -> Any:
    """Return outputs of mapped inputs inside of a gradient by something else."""
    by = grad(lambda scale, x: scale * call(x).sum())
    return vmap(lambda x: by(torch.ones(()), x))(several)


UNDER_AUTOCAST = TRANSFORMS | {
    "of an unmapped input": of_unmapped,
    "in a gradient by something else": in_unmapped,
}
TANGENTS: dict[str, Callable[[Any, Any], Any]] = {
    "of tangents": lambda call, x: vmap(lambda x: jvp(call, (x,), (x,))[1])(x),
    "in tangents": lambda call, x: jvp(vmap(call.forward), (x,), (x,))[1],
}


def under_autocast(transform: Callable[[Any, Any], Any], call: Any, several: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return transform(call, several)


@pytest.mark.parametrize("transform", UNDER_AUTOCAST | TANGENTS)
@pytest.mark.parametrize("kind", INPUTS)
def test_vmap_under_autocast_equals_pytorchs(source: Local, kind: str, transform: str) -> None:
    """Autocast does not cast a convolution's tensors that vmap maps, but does so inside of another
    transform."""
    plain, *tuned = three(kind, source)
    run = partial(under_autocast, (UNDER_AUTOCAST | TANGENTS)[transform])
    several = INPUTS[kind]()
    for call in tuned:
        torch.testing.assert_close(run(call, several), run(plain, several))


@pytest.mark.parametrize("transform", UNDER_AUTOCAST)
def test_graph_of_vmap_under_autocast_equals_pytorchs(source: Local, transform: str) -> None:
    plain, *tuned = three("images", source)
    run = partial(under_autocast, UNDER_AUTOCAST[transform])
    several = INPUTS["images"]()
    for call in tuned:
        compiled = torch.compile(partial(run, call), backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(several), run(plain, several))
