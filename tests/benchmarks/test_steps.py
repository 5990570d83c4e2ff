"""The benchmark of training steps: its loss curves, its profiles and its page."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from tests.benchmarks.training.steps.curves import distance, own_distances, shift  # noqa: E402
from tests.benchmarks.training.steps.kernels import profiled  # noqa: E402
from tests.benchmarks.training.steps.page import markdown  # noqa: E402
from tests.benchmarks.training.steps.step import Training  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "training-steps"
STEPS = 12


def training(seed: int = 1, channels_last: bool = True) -> Training:
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    return Training(model, (4, 3, 10, 10), 5, "cpu", channels_last)


def test_loss_curve_restarts_the_training() -> None:
    first = training()
    losses = first.curve(STEPS)
    assert losses[-1] < losses[0]
    assert first.curve(STEPS) == losses == training().curve(STEPS)


def test_training_begins_from_the_weights_of_another() -> None:
    one, other = training(), training(seed=2)
    assert one.curve(STEPS) != other.curve(STEPS)
    one.begin_from(other)
    assert one.curve(STEPS) == other.curve(STEPS)


def test_wrong_gradient_takes_a_loss_curve_out_of_the_spread() -> None:
    """The spread comes only from rounding: the right steps run in two layouts."""
    right, planes, wrong = training(), training(channels_last=False), training()
    wrong.model[1].weight.register_hook(lambda gradient: -gradient)
    curves = {"last": right.curve(STEPS), "planes": planes.curve(STEPS)}
    most = max(own_distances(curves))
    assert distance(training().curve(STEPS), curves) <= most
    assert distance(wrong.curve(STEPS), curves) > most


def test_distances_and_shift_are_means_over_curves_and_steps() -> None:
    curves = {"a": [1.0, 2.0], "b": [1.5, 2.0], "c": [1.0, 4.0]}
    assert own_distances(curves) == [pytest.approx((0.25 + 1) / 2), 0.75, 1.125]
    assert distance([1.0, 2.0], curves) == pytest.approx((0 + 0.25 + 1) / 3)
    assert shift([2.0, 3.0], {"a": [1.0, 2.0], "b": [1.5, 2.0]}) == pytest.approx(0.875)


def test_profile_tells_depthwise_layers_from_others() -> None:
    found = profiled(training().step, "cpu")
    assert set(found["depthwise"]) == {"aten::convolution", "aten::convolution_backward"}
    assert 0 < found["depthwise_ms"] < found["total_ms"]
    only_dense = Training(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        (4, 3, 10, 10), 8, "cpu",
    )  # fmt: skip
    assert profiled(only_dense.step, "cpu")["depthwise_ms"] == 0


def row() -> dict[str, Any]:
    ours = {f"optimize_, {how}": [7.0, 6.5] for how in ("compiled", "eager")}
    theirs = {"PyTorch, compiled": [7.0, 6.5], "PyTorch, eager": [7.0, 6.7]}
    kernels = {"total_ms": 30.0, "depthwise_ms": 9.0}
    return {
        "name": "convnext_tiny B=128", "network": "convnext_tiny", "device": "cuda", "run": 0,
        "seconds": {"tune": 90.4}, "report": {"tuned": 0, "rows": []},
        "graphs": {"optimize_": {"graphs": 1, "breaks": 0}},
        "host": {"cpus": 16, "load": 1.25, "others": 0.5},
        "ms": {"PyTorch": [33.0, 36.0, 36.0, 39.0], "optimize_": [24.0] * 4},
        "kernels": {"PyTorch": kernels, "optimize_": kernels | {"depthwise_ms": 3.0}},
        "curves": {"0": {**theirs, **ours}},
        "captured_ms": {"PyTorch": [30.0] * 4, "optimize_": [20.0] * 4},
        "less_overhead_ms": {"PyTorch": [31.0] * 4, "optimize_": [25.0] * 4},
    }  # fmt: skip


def test_steps_page_shows_speedups_and_curve_distances() -> None:
    text = markdown({"runs": [], "rows": [row()]})
    assert "| 36.00 (33.90, 38.10) | 24.00 (24.00, 24.00) | **1.50** |" in text
    assert "| 30.00 (30.00, 30.00) | 20.00 (20.00, 20.00) | **1.50** | 1.2 |" in text
    assert "| 31.00 (31.00, 31.00) | 25.00 (25.00, 25.00) | **1.24** | 30.00 (30" in text
    assert "| 1.2; 0.5 of 16 | 0 | 9.00 of 30.00 | 3.00 of 30.00 |" in text
    assert "| 0 | 2 | 7.0000 | 1.0e-01 to 1.0e-01 | **5.0e-02** | **5.0e-02** |" in text
    assert "| -5.0e-02 | -5.0e-02 | 6.8e+00 to 6.8e+00 | 6.8e+00 | 6.8e+00 |" in text


@pytest.mark.parametrize("left", ["report", "kernels", "curves", "captured_ms", "less_overhead_ms"])
def test_steps_page_is_written_for_an_interrupted_run(left: str) -> None:
    whole = row()
    names = list(whole)
    begun = {name: whole[name] for name in names[: names.index(left)]}
    assert markdown({"runs": [], "rows": [begun]}).startswith("# Training steps")


def test_steps_page_matches_its_figures() -> None:
    result = json.loads(PAGE.with_suffix(".json").read_text())
    assert markdown(result) == PAGE.with_suffix(".md").read_text()
