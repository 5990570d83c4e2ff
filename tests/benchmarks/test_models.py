"""The benchmark of whole models: its pages match their figures, and an error in a layer of its
networks shows in the output."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

from tests.benchmarks.models.__main__ import merged  # noqa: E402
from tests.benchmarks.models.networks import Case, fold_, settle_  # noqa: E402
from tests.benchmarks.models.page import draw, page  # noqa: E402
from tests.benchmarks.models.ways import in_turns, ready  # noqa: E402
from tests.benchmarks.tuned import write  # noqa: E402

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
PAGE = FOLDER / "models"


def test_models_pages_and_pictures_match_their_figures(tmp_path: Path) -> None:
    for found in (PAGE, FOLDER / "models-h100"):
        result = json.loads(found.with_suffix(".json").read_text())
        assert page(result, found.name) == found.with_suffix(".md").read_text()
        draw(tmp_path / found.name, result)
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == sorted(p.name for p in FOLDER.glob("models-*.svg"))
    assert all(path.read_text() == (FOLDER / path.name).read_text() for path in drawn)


def test_continued_run_keeps_its_earlier_rows(tmp_path: Path) -> None:
    """The same command on the same day is the same run, even if another command ran between."""
    path = tmp_path / "models.of.a.day"
    first, second = {"command": "first"}, {"command": "second"}
    for row, run in (("a", first), ("b", second), ("c", first)):
        write(path, merged([{"name": row}], run, path), "")
    found = merged([{"name": "a", "again": True}], second, path)
    assert found == {
        "runs": [first, second],
        "rows": [
            {"name": "a", "run": 1, "again": True},
            {"name": "b", "run": 1},
            {"name": "c", "run": 0},
        ],
    }


def test_models_page_gives_the_reason_for_a_failed_network() -> None:
    result = json.loads(PAGE.with_suffix(".json").read_text())
    result["rows"] = [result["rows"][0] | {"error": "RuntimeError: no such network"}]
    assert "| RuntimeError: no such network |" in page(result)


def test_folding_batch_norms_keeps_the_output() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4))
    for norm in (model[1], model[3]):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 8, 8)
    model.eval()
    with torch.no_grad():
        before = model(x)
        fold_(model, x)
        assert torch.allclose(model(x), before, atol=1e-5)
    assert [type(each) for each in model] == [nn.Conv2d, nn.Identity, nn.ReLU, nn.BatchNorm2d]


class Scaled(nn.Module):
    """A convolution in a branch that is scaled by 1e-6, as in a new ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3))
        self.gamma = nn.Parameter(torch.tensor(1e-6))
        nn.init.zeros_(self.layers[1].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * self.layers(x)


def test_error_in_a_settled_layer_shows_in_the_output() -> None:
    torch.manual_seed(0)
    model, x = Scaled(), torch.randn(4, 3, 8, 8)
    settle_(model, x)
    assert not model.layers[1].training
    assert model.layers[1].momentum == nn.BatchNorm2d(3).momentum  # training goes on as usual
    with torch.no_grad():
        before = model(x)
        normal = (before - x) / model.gamma / model.layers[1].weight[:, None, None]
        assert torch.allclose(normal.std(dim=(0, 2, 3)), torch.ones(3), atol=0.02)
        model.layers[0].weight *= 1.5
        assert (model(x) - before).abs().max() > 0.1 * before.abs().max()


def test_timing_in_turns_tells_the_slower_call() -> None:
    few, many = torch.randn(8, 8), torch.randn(512, 512)
    calls = {"many": lambda: many @ many, "few": lambda: few @ few}
    times = in_turns({name: ready(call, "cpu") for name, call in calls.items()}, "cpu")
    assert times["many"] > times["few"] > 0


def test_language_model_case_has_a_length_and_image_case_has_layouts() -> None:
    language = Case("transformers:mamba-130m", 2, "bfloat16", "cuda", 512)
    assert language.name == "mamba-130m bfloat16 B=2 L=512"
    assert language.fields["length"] == 512
    assert language.layouts == ("",)
    images = Case("convnext_tiny", 2, "float32", "cpu")
    assert images.name == "convnext_tiny float32 B=2 on a CPU"
    assert "length" not in images.fields
    assert images.layouts == ("NCHW", "NHWC")


def test_audio_case_makes_signals_of_its_length() -> None:
    vocoder = Case("transformers:hifigan", 2, "float16", "cpu", 5)
    assert vocoder.name == "hifigan float16 B=2 L=5 on a CPU"
    assert vocoder.layouts == ("",)
    mels = vocoder.example(None, "")
    assert mels.shape == (2, 5, 80)
    assert mels.dtype == torch.float16
