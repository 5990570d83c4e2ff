"""If a model keeps or uses a layer's output elsewhere, that output has the same values after
:func:`optimize_`: the layer takes in nothing that would change it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


def reuses_the_output(block: Block, y: Any) -> Any:
    return block.bn(y) + y


def keeps_the_output(block: Block, y: Any) -> Any:
    block.kept = y
    return block.act(block.bn(y))


def keeps_the_norms(block: Block, y: Any) -> Any:
    block.kept = [block.bn(y)]
    return block.act(block.kept[0])


def returns_what_pytorch_does_not_look_into(block: Block, y: Any) -> Any:
    return SimpleNamespace(features=y, out=block.bn(y))


@pytest.mark.parametrize(
    ("call", "taken", "apart"),
    [
        (keeps_the_output, [], "conv: BatchNorm2d stays, because the model keeps its input"),
        (keeps_the_norms, ["BatchNorm2d"], "conv: ReLU6 stays, because the model keeps its input"),
        (returns_what_pytorch_does_not_look_into, [], "conv: BatchNorm2d stays, because"),
        (reuses_the_output, [], "conv: BatchNorm2d stays, because something else also uses"),
    ],
)
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_kept_or_reused_output_is_unchanged_by_optimize(
    source: Local, x: Any, call: Any, taken: list[str], apart: str, mode: Any
) -> None:
    model = Block(call, nn.ReLU6()).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    kept = getattr(model, "kept", None)
    report = optimize_(model, x, source=source, mode=mode)
    assert report.rows[0].takes_in == (taken if mode == "inference" else [])
    assert apart in str(report) or mode == "training"
    found = outputs(model, x)
    if isinstance(plain, SimpleNamespace):
        assert close(found.features, plain.features)
        found, plain = found.out, plain.out
    assert close(found, plain)
    if kept is not None:
        assert torch.allclose(*map(torch.as_tensor, (first(model.kept), first(kept))), atol=2e-5)


class Scripted(nn.Module):
    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(y)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
@pytest.mark.parametrize("of", [torch.nn.functional.softsign, Scripted()])
def test_output_taken_by_a_script_is_unchanged_by_optimize(source: Local, x: Any, of: Any) -> None:
    """``optimize_`` sees calls by PyTorch's modes, which do not see the call of a script."""
    script = torch.jit.script(of)
    model = Block(lambda block, y: block.bn(y) + script(y)).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    assert close(outputs(model, x), plain)
    assert "BatchNorm2d stays, because something else also uses its input" in str(report)


def test_output_taken_by_vmap_is_unchanged_by_optimize(source: Local, x: Any) -> None:
    """``vmap`` calls its function with a wrapper tensor, not with the layer's output itself."""
    model = Block(lambda block, y: block.bn(y) + torch.vmap(torch.sigmoid)(y)).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    optimize_(model, x, source=source)
    assert close(outputs(model, x), plain)
    assert model.conv.used == "tuned"


def first(kept: Any) -> Any:
    """Return the tensor that a model kept, which may be in a list."""
    return kept[0] if isinstance(kept, list) else kept
