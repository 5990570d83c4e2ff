"""Models that PyTorch's fully_shard shards, on one CPU. If they are sharded after ``optimize_``,
they compute and train as they should. If they are sharded before, ``optimize_`` refuses them."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.client.local import Local
from tuner.errors import WrongArgument

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from models import Block, close, outputs, train, usual  # noqa: E402

from tuner.torch import capture, optimize_, restore_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:::torch")]


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Any]:
    """Yield a mesh of this process alone."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", rank=0, world_size=1, store=store)
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def sharded(model: Any, mesh: Any) -> Any:
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=mesh)


def test_a_sharded_model_is_refused(source: Local, x: Any, mesh: Any) -> None:
    model = sharded(Block(usual).eval(), mesh)
    for call in (
        lambda: optimize_(model, x, source=source),
        lambda: capture(model, x),
        lambda: restore_(model),
    ):
        with pytest.raises(WrongArgument, match="shard the model after this call"):
            call()


def test_model_sharded_after_optimize_computes_with_present_values(
    source: Local, x: Any, mesh: Any
) -> None:
    plain = Block(usual).eval()
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source)
    assert close(outputs(tuned, x), outputs(plain, x))
    with pytest.warns(UserWarning, match="its parameters are of class DTensor"):
        sharded(tuned, mesh)
    sharded(plain, mesh)
    with torch.no_grad():
        for _ in range(40):
            for model in (plain, tuned):
                model.reshard()
                for parameter in model.parameters():
                    parameter.mul_(1.01).add_(0.001)
            assert close(outputs(tuned, x), outputs(plain, x))


def test_model_sharded_after_optimize_for_training_trains_as_before(
    source: Local, x: Any, mesh: Any
) -> None:
    plain = Block(usual)
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source, mode="training")
    sharded(tuned, mesh)
    for model in (plain, tuned):
        train(model, x, rate=0.5, steps=3)
    for own, expected in zip(tuned.parameters(), plain.parameters(), strict=True):
        assert close(own.full_tensor(), expected)
