"""Scripted modules in a program that imports ``tuner.torch``."""

import copy
import io
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close, outputs  # noqa: E402

from tuner.torch import optimize_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:::torch")]


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(6, 6, 1), torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        return y


@pytest.fixture
def scripted() -> Any:
    return torch.jit.script(Nested().eval())


def test_scripted_module_can_be_loaded(scripted: Any, x: Any) -> None:
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    assert close(outputs(torch.jit.load(file), x), outputs(scripted, x))


def test_tuned_model_with_a_scripted_part_can_be_copied(
    scripted: Any, source: Local, x: Any
) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), torch.nn.ReLU6(), scripted
    ).eval()
    expected = outputs(model, x)
    optimize_(model, x, source=source)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    assert close(outputs(copy.deepcopy(model), x), expected)
    assert close(outputs(averaged, x), expected)
