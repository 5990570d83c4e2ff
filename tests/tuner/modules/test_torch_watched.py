"""PyTorch's tools that see each operation of a model also see those of a tuned model."""

import copy
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, usual  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tuner.torch import optimize_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:::torch")]


def counted(model: Any, x: Any, backward: bool) -> int:
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        y = model(x)
        if backward:
            y.sum().backward()
    total: int = counter.get_total_flops()
    return total


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_flop_counter_counts_a_tuned_models_operations(
    source: Local, trained: Local, x: Any, mode: Any
) -> None:
    plain = Block(usual).train(mode == "training")
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source if mode == "inference" else trained, mode=mode)
    with torch.no_grad():
        tuned(x)
    for backward in (False, True):
        assert counted(tuned, x, backward) == counted(plain, x, backward) > 0
    assert "TorchDispatchMode" in tuned.conv.reason
