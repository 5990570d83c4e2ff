"""Layers whose weight is replaced by one of another shape, as structured pruning does, compute what
PyTorch's layers compute with it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from tuner.torch import capture, optimize_, restore_  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of "same" with even kernels
]


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def put(module: Any, weight: Any, bias: Any = None) -> None:
    module.weight = nn.Parameter(weight)
    if bias is not None:
        module.bias = nn.Parameter(bias)


def computed(call: Any, x: Any, parameters: Any) -> list[Any]:
    """Return the output, and the gradients of input and parameters."""
    x = x.clone().requires_grad_()
    y = call(x)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *parameters])]


def alike(module: Any, plain: Any, x: Any) -> None:
    """Check that both compute the same: without gradients, with them, and compiled."""
    with torch.no_grad():
        torch.testing.assert_close(module(x), plain(x), atol=1e-4, rtol=1e-4)
    expected = computed(plain, x, plain.parameters())
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    for call in (module, compiled):
        found = computed(call, x, module.parameters())
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


LAYERS: dict[str, tuple[Any, Any]] = {
    "fewer kernels": (lambda: nn.Conv1d(4, 8, 5, padding=2), (6, 4, 5)),
    "fewer channels": (lambda: nn.Conv1d(4, 8, 5, padding=2, stride=2), (8, 3, 5)),
    "fewer taps": (lambda: nn.Conv1d(4, 8, 5, padding=2, dilation=2), (8, 4, 3)),
    "more taps": (lambda: nn.Conv1d(4, 4, 3, padding=1, groups=4), (4, 1, 4)),
    "more taps, same": (lambda: nn.Conv1d(4, 8, 3, padding="same"), (8, 4, 6)),
    "fewer taps, same": (lambda: nn.Conv1d(4, 8, 5, padding="same", dilation=3), (8, 4, 4)),
    "a larger image": (lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (4, 1, 5, 4)),
    "a larger image, same": (lambda: nn.Conv2d(4, 4, 3, padding="same", groups=4), (4, 1, 5, 4)),
}


@pytest.mark.parametrize(("made", "shape"), LAYERS.values(), ids=LAYERS)
def test_layer_computes_with_a_weight_of_another_shape(
    source: Local, made: Any, shape: tuple[int, ...]
) -> None:
    plain = made()
    kind: Any = Conv1d if len(shape) == 3 else DepthwiseConv2d
    module = kind.of(copy.deepcopy(plain), source=source)
    weight, bias = torch.randn(shape), torch.randn(shape[0])
    for each in (plain, module):
        put(each, weight, bias)
    x = torch.randn(2, shape[1] * plain.groups, *[17] * (len(shape) - 2))
    alike(module, plain, x)
    assert module.used == "pytorch"
    assert "the layer was made for" in module.reason


@pytest.mark.parametrize("taps", [2, 7])
@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid", "causal"])
def test_mode_follows_the_number_of_taps_of_a_new_weight(
    source: Local, mode: Any, kind: Any, taps: int
) -> None:
    form = {"source": source, "mode": mode, "kind": kind, "dilation": 2}
    module = Conv1d(torch.randn(3, 2, 4), **form)
    weight = torch.randn(3, 2, taps)
    put(module, weight)
    alike(module, Conv1d(weight.requires_grad_(), **form), torch.randn(2, 2, 20))


class Causal(nn.Module):
    """A convolution that is padded on both sides, and cut off at the input's length."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv1d(4, 4, 4, groups=4, padding=3), nn.SiLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.conv(x)[..., : x.shape[-1]])


@pytest.mark.parametrize("taps", [2, 6, 10])
def test_causal_layer_keeps_the_models_padding_after_pruning(source: Local, taps: int) -> None:
    plain, x = Causal().eval(), torch.randn(2, 4, 61)
    model = copy.deepcopy(plain)
    optimize_(model, x, source=source)
    assert model.conv.mode == "causal"
    weight = torch.randn(4, 1, taps)
    for each in (plain, model):
        put(each.conv, weight)
    alike(model, plain, x)


def test_norm_is_folded_into_the_kernels_left_after_pruning(source: Local) -> None:
    """The kernels left lie in the memory of all kernels that were folded before."""
    plain = nn.Sequential(nn.Conv1d(4, 6, 5, padding=2), nn.BatchNorm1d(6)).eval()
    plain[1].running_var.uniform_(0.5, 2)
    x = torch.randn(2, 61, 4).mT
    model = copy.deepcopy(plain)
    optimize_(model, x, source=source)
    with torch.no_grad():
        torch.testing.assert_close(model(x), plain(x), atol=1e-4, rtol=1e-4)
    assert model[0].used == "tuned"
    for conv, norm in (plain, model):
        put(conv, conv.weight[:4].detach(), conv.bias[:4].detach())
        put(norm, norm.weight[:4].detach(), norm.bias[:4].detach())
        norm.running_mean, norm.running_var = norm.running_mean[:4], norm.running_var[:4]
    alike(model, plain, x)


def test_optimize_takes_the_kernel_size_from_a_pruned_weight(source: Local) -> None:
    """A module's ``kernel_size`` may still be the one from before pruning."""
    plain, x = nn.Sequential(nn.Conv1d(4, 4, 7, padding="same", groups=4)), torch.randn(2, 4, 61)
    put(plain[0], torch.randn(4, 1, 4))
    model = copy.deepcopy(plain)
    assert capture(model, x)[0].order["workload"]["padding"] == [1, 2]
    optimize_(model, x, source=source)
    alike(model, plain, x)
    restore_(model)
    alike(model, plain, x)
