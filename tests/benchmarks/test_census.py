"""The census counts a model's convolutions once for each input shape, and gives a reason for each
one that is no workload."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import templates  # noqa: E402
from tests.benchmarks.census.count import Census, as_json, called, fields, take, unfit  # noqa: E402
from tests.benchmarks.census.models import Model  # noqa: E402
from tests.benchmarks.census.page import compact, markdown  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = pytest.mark.torch


class Conv1dSame(torch.nn.Conv1d):
    def forward(self, x: Any) -> Any:
        return super().forward(x)


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
            torch.nn.Conv2d(8, 16, (1, 4), padding="same", groups=8),
            torch.nn.Conv2d(16, 16, 3, stride=(1, 2), padding=1, groups=16),
            torch.nn.Conv2d(16, 16, 5, stride=5, groups=16),
        )
        self.never = torch.nn.Conv2d(8, 8, 3, groups=8)

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Sounds(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv1d(8, 8, 3, padding=1),
            torch.nn.Conv1d(8, 8, 3, padding=1, groups=4),
            torch.nn.Conv1d(8, 8, 3, padding=1, padding_mode="circular"),
            Conv1dSame(8, 8, 4, stride=2, dilation=1),
            torch.nn.ConvTranspose1d(8, 8, 4, stride=2),
        )
        self.used = torch.nn.Conv1d(8, 8, 4, groups=8, padding=3)

    def forward(self, x: Any) -> Any:
        weight = self.used.weight.squeeze(1).unsqueeze(1)
        x = torch.nn.functional.conv1d(x, weight, padding=3, groups=8)[..., :-3]
        return self.layers(x)


MODELS = {
    "images": lambda: (Images(), {"x": torch.zeros(1, 3, 20, 20)}),
    "sounds": lambda: (Sounds(), {"x": torch.zeros(1, 8, 31)}),
    "more sounds": lambda: (Sounds(), {"x": torch.zeros(1, 8, 31)}),
    "wrong": lambda: (Sounds(), {"x": torch.zeros(1, 7, 31)}),
}


@pytest.fixture(scope="module")
def census() -> Census:
    counted = Census()
    for name, make in MODELS.items():
        take(counted, Model("own", name, make))
    return counted


def test_census_counts_layers_of_one_shape_once(census: Census) -> None:
    counts = as_json(census)["operators"]
    assert counts["depthwise_conv2d"] == {
        "unique": 4,
        "workloads": 2,
        "share": 0.5,
        "accepted": 2,
    }
    assert counts["conv1d"] == {"unique": 5, "workloads": 3, "share": 0.6, "accepted": 1}
    assert as_json(census)["transposed_conv1d"] == 1


def test_census_gives_a_reason_for_each_unfit_layer(census: Census) -> None:
    layers = [*census.of("conv1d"), *census.of("depthwise_conv2d")]
    reasons = {reason[0] for reason in map(unfit, layers) if reason is not None}
    assert reasons == {
        "stride differs in its directions",
        "strides above 4",
        "groups between 1 and its channels",
        "padding_mode circular",
    }
    refused = set().union(*census.refused.values())
    assert "is not called, its weight used" in refused
    assert any("Conv1dSame" in reason for reason in refused)


def test_census_lists_the_models_of_each_layer(census: Census) -> None:
    models = {frozenset(census.layers[layer]) for layer in census.of("conv1d")}
    assert models == {frozenset({"own sounds", "own more sounds"})}
    assert census.uncalled == {"own images": 1, "own sounds": 0, "own more sounds": 0}


def test_census_skips_a_model_that_fails(census: Census) -> None:
    assert list(census.skipped) == ["own wrong"]
    assert "own wrong" not in census.models


def test_census_calls_a_model_on_the_cpu_if_meta_fails() -> None:
    class Asks(Images):
        def forward(self, x: Any) -> Any:
            return self.layers(x) if x.sum().item() == 0 else x

    counted = Census()
    take(counted, Model("own", "asks", lambda: (Asks(), {"x": torch.zeros(1, 3, 20, 20)})))
    assert counted.on_cpu == counted.models == ["own asks"]


def test_same_layer_is_padded_as_in_tensorflow(census: Census) -> None:
    (same,) = (each for each in census.of("conv1d") if each.stride == (2,))
    assert same.padding == (1, 2)  # 31 samples give 16 outputs, with 2 * 15 + 4 - 31 zeros


@pytest.mark.parametrize("name", ["images", "sounds"])
def test_census_derives_the_same_fields_as_the_modules(name: str) -> None:
    kinds = {"conv1d": Conv1d, "depthwise_conv2d": DepthwiseConv2d}
    module, inputs = MODELS[name]()
    compared = 0
    for each, layer, _ in called(module, inputs):
        if layer.operator in kinds and unfit(layer) is None and "Same" not in type(each).__name__:
            workload = templates.operator(layer.operator).workload
            own: Any = kinds[layer.operator].of(each, source=None)
            found = own._fields(torch.zeros(layer.input))
            assert workload.model_validate(found) == workload.model_validate(fields(layer))
            compared += 1
    assert compared >= 2


def test_census_page_names_missing_libraries_and_skipped_models(census: Census) -> None:
    facts = {"command": "…", "date": "…", "seconds": 1, "versions": {}, "missing": {"timm": "no"}}
    result = facts | as_json(census)
    page = markdown(result)
    assert "| depthwise conv2d | 4 | 2 | 50.0% | at least 95% | 2 |" in page
    assert "- timm: no" in page
    assert "- own wrong: " in page
    assert compact(result).count('"operator"') == 9
