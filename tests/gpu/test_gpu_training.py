"""Training steps of a tuned model can be CUDA graphs, whose replays do not call any library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.client.local import Local
from tuner.library.load import Library

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch uses its deprecated functions
]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from tests.benchmarks.training.steps.step import BATCHES, BEFORE_CAPTURE, RATE, Training  # noqa: E402
from tuner.torch import optimize_  # noqa: E402

SHAPE, CLASSES = (8, 3, 56, 56), 10
WARM_UP = 4
TOLERANCE = 3e-2
"""Relative tolerance of losses, which are computed in bfloat16."""


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def training() -> Training:
    """Return the training of a small network of 7x7 depthwise layers with a bias, whose gradients
    are slow in PyTorch."""
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 4, stride=4),
        nn.Conv2d(64, 64, 7, padding=3, groups=64), nn.Conv2d(64, 64, 1), nn.GELU(),
        nn.Conv2d(64, 64, 7, padding=3, groups=64), nn.Conv2d(64, 64, 1), nn.GELU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES),
    )  # fmt: skip
    return Training(model, SHAPE, CLASSES, "cuda")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list to which the path of each library is added when it is called."""
    made: list[Path] = []
    of_tensors, by_address = Library.of_tensors, Library.by_address

    def told(library: Library, *given: Any) -> Any:
        made.append(library.path)
        return of_tensors(library, *given)

    def told_by_address(library: Library, gpu: int | None) -> Any:
        run: Any = by_address(library, gpu)

        def call(*addresses: int) -> None:
            made.append(library.path)
            run(*addresses)

        return call

    monkeypatch.setattr(Library, "of_tensors", told)
    monkeypatch.setattr(Library, "by_address", told_by_address)
    return made


@pytest.fixture
def tuned(source: Local, calls: list[Path]) -> Training:
    made = training()
    with made.autocast():
        report = optimize_(
            made.model, made.images, source=source, mode="training", on_missing="tune",
            budget_seconds=120,
        )  # fmt: skip
    assert report.tuned > 0, str(report)
    calls.clear()
    return made


def test_inductor_makes_cuda_graphs_of_a_training_step(calls: list[Path], tuned: Training) -> None:
    """``torch.compile(mode="reduce-overhead")`` captures the step; a replay launches all of it."""
    from torch._dynamo.utils import counters

    plain = training().curve(WARM_UP + BATCHES)
    counters.clear()
    tuned.compile("reduce-overhead")
    losses = [float(tuned.step()) for _ in range(WARM_UP)]
    assert calls
    calls.clear()
    losses += [float(tuned.step()) for _ in range(BATCHES)]
    assert not calls
    assert counters["inductor"]["cudagraph_skips"] == 0
    assert losses == pytest.approx(plain, rel=TOLERANCE)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_whole_training_step_can_be_captured_in_a_cuda_graph(
    calls: list[Path], tuned: Training, compiled: bool
) -> None:
    if compiled:
        tuned.compile()
    replay = tuned.captured()
    assert calls
    calls.clear()
    replay()
    torch.cuda.synchronize()
    assert not calls
    plain = training()
    plain.curve(BEFORE_CAPTURE + 1)
    pairs = list(zip(tuned.model.parameters(), plain.model.parameters(), strict=True))
    apart = sum(float((one - other).detach().abs().sum()) for one, other in pairs)
    assert apart / sum(one.numel() for one, _ in pairs) < RATE / 3  # a step moves each by RATE


class OnBothDevices(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 7, padding=3, groups=64)

    def forward(self, x: Any) -> tuple[Any, Any]:
        y = self.conv(x)
        return y, y.cpu()


def test_model_may_return_tensors_on_several_devices(source: Local) -> None:
    model, x = OnBothDevices().cuda(), torch.randn(8, 64, 56, 56, device="cuda")
    report = optimize_(
        model, x, source=source, mode="training", on_missing="tune", budget_seconds=40
    )
    assert report.tuned > 0, str(report)
    on_gpu, on_cpu = model(x)
    torch.testing.assert_close(on_gpu.cpu(), on_cpu)
