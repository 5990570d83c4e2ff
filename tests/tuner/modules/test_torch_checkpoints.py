"""``optimize_`` in mode "training" for models with checkpoints, which call their modules once more
in the backward pass."""

import copy
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import train  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tuner.errors import WrongArgument  # noqa: E402
from tuner.torch import optimize_  # noqa: E402

pytestmark = pytest.mark.torch


class Checkpointed(nn.Module):
    """A model that checkpoints its block."""

    def __init__(self, *behind: nn.Module, reentrant: bool = False) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.stem = nn.Conv2d(6, 6, 1)
        self.block = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6), *behind)
        self.reentrant = reentrant

    def forward(self, x: Any) -> Any:
        return checkpoint(self.block, self.stem(x), use_reentrant=self.reentrant)


class Failing(torch.autograd.Function):
    """The identity, whose gradient fails after the checkpoint has called its modules again."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise ArithmeticError(f"{len(ctx.saved_tensors)} tensor")


class Fails(nn.Module):
    def forward(self, x: Any) -> Any:
        return Failing.apply(x)


def stated(model: nn.Module) -> list[Any]:
    """Return all that a call may change: the random state, the parameters' gradients, the modules'
    modes, and parameters and statistics."""
    return copy.deepcopy(
        [
            torch.get_rng_state(),
            [each.grad for each in model.parameters()],
            [each.training for each in model.modules()],
            [*model.state_dict().values()],
        ]
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("behind", [(nn.BatchNorm2d(6), nn.ReLU()), (nn.Dropout(), nn.SiLU())])
def test_checkpointed_model_in_training_mode_trains_as_before(
    trained: Local, x: Any, behind: tuple[nn.Module, ...]
) -> None:
    model = Checkpointed(*behind)
    model(x).sum().backward()
    model.block[0].eval()
    own, before = copy.deepcopy(model), stated(model)
    report = optimize_(model, x, source=trained, mode="training")
    assert same(stated(model), before)
    assert [row.by for row in report.rows] == ["tuned"] * 3
    assert (report.error or 0) < 1e-5
    for each in (model, own):
        torch.manual_seed(0)  # of the dropout
        train(each, x, rate=0.01, steps=3)
    for mine, theirs in zip(model.parameters(), own.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4)


def test_nothing_changes_if_the_backward_pass_fails(trained: Local, x: Any) -> None:
    model = Checkpointed(nn.BatchNorm2d(6), Fails())
    before = stated(model)
    with pytest.raises(ArithmeticError, match="1 tensor"):
        optimize_(model, x, source=trained, mode="training")
    assert same(stated(model), before)


def test_reentrant_checkpoint_is_refused(trained: Local, x: Any) -> None:
    """PyTorch gives the gradients of a reentrant checkpoint only by ``backward``, which adds them
    to those of the parameters and calls hooks such as an optimiser's step."""
    model = Checkpointed(nn.BatchNorm2d(6), reentrant=True)
    before = stated(model)
    with pytest.raises(WrongArgument, match="use_reentrant=False"):
        optimize_(model, x, source=trained, mode="training")
    assert same(stated(model), before)
    assert type(model.block[0]) is nn.Conv2d
