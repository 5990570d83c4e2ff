"""A layer leaves out outputs that the model cuts off, but only at lengths at which it does so."""

import copy
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs, scramble  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import capture, optimize_  # noqa: E402
from tuner.torch.model.flow.functions import layers_of  # noqa: E402
from tuner.torch.model.survey import Terms, survey  # noqa: E402
from tuner.torch.model.swap import swaps_of  # noqa: E402

SAMPLES = 64


class Cut(nn.Module):
    """A causal convolution that is padded on both sides, and cut off after ``fixed`` samples or, if
    that is None, after as many as the input has."""

    def __init__(self, fixed: int | None, fewest: int = 0) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv1d(4, 4, 4, groups=4, padding=3), nn.SiLU()
        self.fixed, self.fewest = fixed, fewest

    def forward(self, x: Any) -> Any:
        if x.shape[-1] < self.fewest:
            raise ValueError("too few samples")
        return self.act(self.conv(x)[..., : self.fixed or x.shape[-1]])


def swapped(model: Cut, source: Local) -> Any:
    """Put a layer in the place of the model's convolution and return the layer."""
    example = torch.randn(2, 4, SAMPLES)
    layers, _ = survey(model, (example,), {}, Terms(source))
    (layer,) = layers
    (swap,) = swaps_of(model, layers)
    assert layer.fused == [model.act]
    swap.apply()
    return layer.tuned


class Tail(nn.Module):
    """A convolution whose tail is cut off or kept, as the caller wants."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 4, groups=4, padding=3)

    def forward(self, x: Any, whole: bool = False) -> Any:
        return self.conv(x) if whole else self.conv(x)[..., : x.shape[-1]]


class Called(Tail):
    """The same, but the convolution is called as a function."""

    def forward(self, x: Any, whole: bool = False) -> Any:
        y = nn.functional.conv1d(x, self.conv.weight, self.conv.bias, 1, 3, 1, 4)
        return y if whole else y[..., : x.shape[-1]]


class Around(nn.Module):
    """A module that cuts off the output of another, which convolves."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Called()

    def forward(self, x: Any) -> Any:
        return self.part(x, whole=True)[..., : x.shape[-1]]


def function_layer(model: nn.Module, x: Any, source: Local) -> Any:
    """Have a layer compute the convolution that the model calls as a function; return the layer."""
    (layer,), _ = survey(model, (x,), {}, Terms(source))
    (swap,) = swaps_of(model, [layer])
    swap.apply()
    return layer.tuned


def test_function_layer_computes_what_only_another_module_cuts_off(source: Local) -> None:
    model, x = Around().eval(), torch.randn(2, 4, SAMPLES)
    plain = outputs(model.part, x), outputs(model, x)
    with torch.no_grad():
        whole = model.part(x, whole=True)
        function_layer(model, x, source)
        for part in (model.part, copy.deepcopy(model.part), copy.deepcopy(model).part):
            assert close(part(x, whole=True), whole)
    assert all(map(close, (outputs(model.part, x), outputs(model, x)), plain))


def test_function_layer_of_a_copied_part_leaves_out_what_the_part_cuts_off(source: Local) -> None:
    model, x = nn.Sequential(Called()).eval(), torch.randn(2, 4, SAMPLES)
    plain = outputs(model, x)
    assert function_layer(model, x, source).mode == "causal"
    copied = copy.deepcopy(model[0])
    assert [layer.mode for layer in layers_of(copied)] == ["causal"]
    assert close(outputs(copied, x), plain)


@pytest.mark.parametrize("make", [Tail, Called])
def test_model_cuts_the_output_itself_if_fuse_leaves_out_cut(
    source: Local, make: type[Tail]
) -> None:
    model, x = make().eval(), torch.randn(2, 4, SAMPLES)
    with torch.no_grad():
        plain = model(x, whole=True)
    (captured,) = capture(model, x, fuse=("bn", "bias", "act"))
    assert captured.workload.length == SAMPLES + 3
    optimize_(model, x, source=source, fuse=("bn", "bias", "act"))
    with torch.no_grad():
        assert close(model(x, whole=True), plain)
        assert close(model(x), plain[..., :SAMPLES])


@pytest.mark.parametrize("samples", [SAMPLES, SAMPLES - 1, 20, 80])
@pytest.mark.parametrize("fixed", [SAMPLES, None])
def test_cut_output_is_right_at_other_lengths(
    source: Local, fixed: int | None, samples: int
) -> None:
    model = Cut(fixed).eval()
    x = torch.randn(2, 4, samples)
    plain = outputs(model, x)
    swapped(model, source)
    assert model.conv.mode == "causal"
    assert outputs(model, x).shape == plain.shape
    assert close(outputs(model, x), plain)
    for dynamic in (False, True):
        compiled = torch.compile(model, backend="eager", dynamic=dynamic)
        assert close(outputs(compiled, x), plain)
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        (Cut(None), "causal"),
        (Cut(SAMPLES), None),
        (Cut(None, fewest=SAMPLES), None),  # nothing shows what it does at other lengths
    ],
    ids=["with the length", "fixed", "of one length"],
)
def test_layer_is_causal_at_other_lengths_only_if_the_cut_follows_the_length(
    source: Local, model: Cut, mode: str | None
) -> None:
    layer = swapped(model.eval(), source)
    (here,) = layer.wanted(torch.randn(2, 4, SAMPLES))[:1]
    (elsewhere,) = layer.wanted(torch.randn(2, 4, 80))[:1]
    assert (here["mode"], elsewhere["mode"]) == ("causal", mode)


class Subsampled(nn.Module):
    """A causal convolution with a batch norm, behind a layer that shortens the signal."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 4, 2, stride=2)
        self.conv, self.bn = nn.Conv1d(4, 4, 4, groups=4, padding=3), nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.bn(self.conv(x)[..., : x.shape[-1]])


@pytest.mark.parametrize("samples", [2 * SAMPLES, 80])
def test_batch_norm_behind_a_cut_sees_only_what_is_left_in_training(
    source: Local, samples: int
) -> None:
    tuned = Subsampled().eval()
    plain = copy.deepcopy(tuned)
    layers, _ = survey(tuned, (torch.randn(2, 4, 2 * SAMPLES),), {}, Terms(source))
    for swap in swaps_of(tuned, layers):
        swap.apply()
    assert layers[1].fused == [tuned.bn]
    x = torch.randn(2, 4, samples)
    for model in (plain, tuned):
        model.train()
    assert close(tuned(x), plain(x))
    assert close(tuned.bn.running_var, plain.bn.running_var)
    for model in (plain, tuned):
        model.eval()
    assert close(outputs(tuned, x), outputs(plain, x))


class Chunks(nn.Module):
    """A causal convolution that computes all chunks of a signal before its batch norm does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv1d(4, 4, 4, groups=4, padding=3), nn.BatchNorm1d(4)
        self.act = nn.SiLU()
        scramble(self)

    def forward(self, x: Any) -> Any:
        cut = [self.conv(chunk)[..., :SAMPLES] for chunk in x.split(SAMPLES, -1)]
        return torch.cat([self.act(self.bn(y)) for y in cut], -1)


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
@pytest.mark.parametrize(
    "gradients", [torch.enable_grad, torch.no_grad, torch.inference_mode], ids=lambda f: f.__name__
)
def test_chunks_that_are_cut_before_any_is_normalised_are_right(
    source: Local, gradients: Any, backend: str | None
) -> None:
    tuned = Chunks().eval()
    plain = copy.deepcopy(tuned)
    layers, _ = survey(tuned, (torch.randn(2, 4, SAMPLES),), {}, Terms(source))
    (swap,) = swaps_of(tuned, layers)
    assert layers[0].fused == [tuned.bn, tuned.act]
    swap.apply()
    called = torch.compile(tuned, backend=backend) if backend else tuned
    x = torch.randn(2, 4, 4 * SAMPLES)
    with gradients():
        assert close(called(x), plain(x))
    torch.compiler.reset()
