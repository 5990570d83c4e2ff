"""The report of ``optimize_``: what it says, what ``on_missing`` does about workloads that are not
tuned, and which arguments are refused."""

import copy
import json
import socket
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from service_process import Service

from db import models
from db.sql.engine import open_engine
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.errors import NotTuned, ServiceUnreachable, WrongArgument
from tuner.job import final, job
from tuner.settings import Settings

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402
from torch import nn  # noqa: E402

from tuner.torch import capture, optimize_, restore_  # noqa: E402
from tuner.torch.model import missing  # noqa: E402
from tuner.torch.model.outputs import difference  # noqa: E402


def test_report_is_given_as_text_json_and_svg(source: Local, x: Any) -> None:
    model = nn.Sequential(Block(usual), nn.Conv2d(6, 6, 5, padding=2, groups=6)).eval()
    report = optimize_(model, x, source=source)
    text = str(report)
    for words in ("0.conv", "B=2", "NHWC", "with BatchNorm2d, ReLU6", "1 of 2 layers", "measured"):
        assert words in text
    found = json.loads(report.to_json())
    assert [row["by"] for row in found["rows"]] == ["tuned", "pytorch"]
    assert found["before_ms"] > 0
    picture = report.svg()
    assert picture.count("<rect") == 1 + 2 * (report.rows[0].pytorch_us is not None)
    assert picture.rstrip().endswith("</svg>")
    assert str(optimize_(nn.Sequential(nn.Linear(3, 3)), torch.randn(1, 3), source=source)) == (
        "the model calls no conv1d and no depthwise conv2d"
    )


class Noisy(Block):
    def forward(self, x: Any) -> Any:
        return super().forward(x + torch.randn_like(x))


@pytest.mark.parametrize(("kind", "varies"), [(Noisy, True), (Block, False)])
def test_report_says_if_the_models_output_varies(
    source: Local, x: Any, kind: Any, varies: bool
) -> None:
    report = optimize_(kind(usual).eval(), x, source=source)
    assert report.tuned == 1
    assert ((report.variation or 0) > 0.1) == varies
    assert ("from call to call without tuned kernels" in str(report)) == varies


def test_model_logs_each_reason_once_for_all_its_layers(
    source: Local, x: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Sequential(Block(usual), Block(usual), Block(usual)).eval()
    optimize_(model, x, source=source)
    caplog.clear()
    for each in (model, copy.deepcopy(model)):
        for size in (1, 2):  # no layer is tuned for a batch of 1
            each(x[:size])
            with torch.no_grad():
                each(x[:size, :, :6, :size])
        of_grad, of_shape = (record.getMessage() for record in caplog.records)
        assert "gradients are needed, but its batch norm was taken into the kernel" in of_grad
        assert "nothing is tuned for depthwise_conv2d" in of_shape
        assert "(said once for the 3 replaced layers of Sequential; each has" in of_shape
        assert [block.conv.used for block in each] == ["pytorch"] * 3
        assert "--W 2" in each[2].conv.reason
        caplog.clear()


def test_on_missing_raise_refuses_before_the_model_changes(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    with pytest.raises(NotTuned, match=r"(?s)1 workloads .*tuner tune depthwise_conv2d"):
        optimize_(model, x, source=source, on_missing="raise")
    assert type(model.conv) is nn.Conv2d


def test_on_missing_tune_tunes_the_missing_workload(source: Local) -> None:
    model, x = (
        nn.Sequential(nn.Conv2d(2, 2, 3, groups=2, bias=False)).eval(),
        torch.randn(1, 2, 5, 4),
    )
    plain = outputs(model, x)
    report = optimize_(model, x, source=source, on_missing="tune", budget_seconds=0.1)
    (row,) = report.rows
    assert row.by == "tuned" or "was the fastest" in row.reason, str(report)
    assert close(outputs(model, x), plain)
    (asked,) = capture(restore_(model) or model, x)
    # an earlier test in this process may have left PyTorch one thread
    several = torch.get_num_threads() > 1
    best = source.best(asked.operator, asked.workload.model_dump(), parallel=several)
    pytorchs = [each.time_us for each in best.baselines if each.name.startswith("pytorch")]
    assert row.pytorch_us in pytorchs
    assert row.time_us == pytest.approx(best.timing["call"]["median_us"])


@pytest.mark.parametrize("most", [2, 1])
def test_missing_workloads_are_submitted_in_as_few_orders_as_possible(
    source: Local, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(missing, "MAX_WORKLOADS", most)
    for room in (job, final):  # peers are left out, as this test does not need their times
        monkeypatch.setattr(room, "groups", lambda *_: ())
    layers = [nn.Conv2d(2, 2, size, groups=2, bias=False) for size in (1, 1, 2)]
    # No other test tunes a shape of this size.
    model, x = nn.Sequential(*layers).eval(), torch.randn(1, 2, 5, 5 + most)
    optimize_(model, x, source=source, on_missing="tune", budget_seconds=0.1)
    engine = open_engine(source.where)
    orders = models.list_models(engine).items[: 2 // most]
    found = [layer for order in reversed(orders) for layer in models.layers(engine, order)]
    engine.dispose()
    assert [order.name for order in orders] == ["Sequential"] * len(orders)
    assert [layer.calls for layer in found] == [2, 1]
    assert {layer.job.baselines for layer in found} == {"pytorch"}


def test_report_says_at_the_layer_why_its_job_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key"))
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'convtune.db'}", build_seconds=0.001)
    model = nn.Sequential(nn.Conv2d(2, 2, 3, groups=2)).eval()
    with Local(settings) as never_built:
        report = optimize_(model, torch.randn(1, 2, 5, 4), source=never_built, on_missing="tune")
    (row,) = report.rows
    assert (row.by, row.reason.startswith("job ")) == ("pytorch", True)
    assert "failed" in row.reason


def test_a_service_that_is_down_leaves_the_model_as_it_is(x: Any) -> None:
    model = Block(usual).eval()
    with Client("http://127.0.0.1:9", timeout=1) as source:
        report = optimize_(model, x, source=source)
        assert type(model.conv) is nn.Conv2d
        assert "no service answers" in str(report)
        with pytest.raises(ServiceUnreachable, match="no service answers"):
            optimize_(model, x, source=source, on_missing="raise")


@pytest.mark.parametrize("on_missing", ["fallback", "tune", "nearest", "predicted"])
def test_a_service_that_never_answers_is_asked_once(x: Any, on_missing: Any) -> None:
    model = nn.Sequential(Block(usual), nn.Conv2d(6, 6, 5, padding=2, groups=6), nn.Conv2d(6, 6, 1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, timeout=0.2) as source:
            report = optimize_(model.eval(), x, source=source, on_missing=on_missing)
        silent.settimeout(0.1)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()
    first, second = (row.reason for row in report.rows)
    assert f"no service answers at {url} (ReadTimeout" in first
    assert f"it was not looked up, because no service answers at {url}" in second
    assert first.startswith("no service" if on_missing == "fallback" else "it was not looked up")


class Recorded(Client):
    """A client that keeps the filters of each order for the nearest."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def verify_nearest(self, *given: Any, **filters: Any) -> Any:
        self.asked.append(filters)
        return super().verify_nearest(*given, **filters)


def test_nearest_is_ordered_for_as_many_threads_as_the_layer_gets(
    service: Service, tmp_path: Path
) -> None:
    model = nn.Sequential(nn.Conv1d(1, 1, 2))  # nothing is near
    threads = torch.get_num_threads()
    try:
        for several in (1, 2):
            torch.set_num_threads(several)
            with Recorded(service.url, cache=tmp_path / "cache") as source:
                report = optimize_(model, torch.randn(1, 1, 8), source=source, on_missing="nearest")
            assert "no configuration of a near shape could be verified" in report.rows[0].reason
    finally:
        torch.set_num_threads(threads)
    assert [each["parallel"] for each in Recorded.asked] == [False, True]


@pytest.mark.parametrize("on_missing", ["fallback", "predicted", "tune", "raise"])
def test_model_on_the_meta_device_stays_pytorchs(source: Local, on_missing: Any) -> None:
    with torch.device("meta"):
        model, x = Block(usual).eval(), torch.randn(2, 6, 7, 9)
        report = optimize_(model, x, source=source, on_missing=on_missing)
    (row,) = report.rows
    assert row.by == "pytorch"
    assert row.reason == "it is called on meta, and kernels are for cpu and cuda"
    assert type(model.conv) is nn.Conv2d


def test_model_is_optimised_if_meta_is_the_default_device(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    with torch.device("meta"):
        report = optimize_(model, x, source=source)
        assert close(outputs(model, x), plain)
    assert [row.by for row in report.rows] == ["tuned"]


def test_model_is_unchanged_if_its_call_fails(source: Local, x: Any) -> None:
    calls: list[Any] = []

    def fails_at_the_second_call(block: Block, y: Any) -> Any:
        calls.append(block)
        if len(calls) > 1:
            raise RuntimeError("not this one")
        return usual(block, y)

    model = Block(fails_at_the_second_call).eval()
    with pytest.raises(RuntimeError, match="not this one"):
        optimize_(model, x, source=source)
    assert type(model.conv) is nn.Conv2d
    assert "forward" not in vars(model.bn)


class Merging(Block):
    """A block that records a merge in ``train(False)``, where LoRA's layers add their adapter to
    the weight."""

    merged = False

    def train(self, mode: bool = True) -> Any:
        self.merged = not mode
        return super().train(mode)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_optimize_does_not_call_the_models_train_method(source: Local, x: Any, mode: Any) -> None:
    model = Merging(usual)
    report = optimize_(model, x, source=source, mode=mode)
    assert report.training
    assert (model.training, model.bn.training, model.merged) == (True, True, False)


def test_norm_is_not_taken_in_under_autocast(source: Local) -> None:
    """Autocast casts the layer's tensors but not the norm's. If the layer took the norm in, PyTorch
    would have to compute the layer, so the norm stays a module."""
    model = nn.Sequential(nn.Conv1d(1, 1, 7, padding=3, bias=False), nn.BatchNorm1d(1)).eval()
    signal = torch.randn(1, 1, 1001)
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", torch.bfloat16):
        report = optimize_(model, signal, source=source)
        y, expected = outputs(model, signal), outputs(plain, signal)
    assert model[0].used == "tuned"
    assert torch.allclose(y, expected, atol=2e-2)
    assert "0: BatchNorm1d stays, because the layer is called under autocast" in str(report)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"fuse": "bn"}, "fuse is 'bn'"),
        ({"fuse": ("bn", "norm")}, "must be a collection with some of 'bn', 'bias', 'act'"),
        ({"filter_fn": "conv"}, "filter_fn is a str"),
        ({"max_error": 0.0}, "max_error is 0.0, and must be from 1e-06 to 0.1"),
        ({"on_missing": "guess"}, "on_missing is 'guess'"),
        ({"on_missing": "nearest"}, "give a Client as source"),
        ({"budget_seconds": 3.0}, "is for on_missing='tune'"),
        ({"on_missing": "tune", "budget_seconds": 0.0}, "must be positive"),
        ({"on_missing": "tune", "budget_seconds": float("inf")}, "must be positive and finite"),
        ({"on_missing": "tune", "budget_seconds": "10"}, "budget_seconds is '10'"),
        ({"fuse": None}, "fuse is None, and must be a collection with some of"),
        ({"max_error": "small"}, "max_error is small, and must be from"),
        ({"source": "http://here"}, "source is a str"),
        ({"example_inputs": 3}, "example_inputs is a int"),
        ({"example_inputs": {1: 2}}, "example_inputs has the key 1, but its keys must be names"),
        ({"example_inputs": None, "on_missing": "tune"}, "needs example_inputs"),
    ],
)
def test_wrong_arguments_are_refused_before_the_model_changes(
    source: Local, x: Any, given: dict[str, Any], says: str
) -> None:
    model = Block(usual).eval()
    with pytest.raises(WrongArgument, match=says):
        optimize_(model, **{"example_inputs": x, "source": source, **given})
    assert type(model.conv) is nn.Conv2d
    for call in (
        lambda: optimize_(3, x, source=source),
        lambda: capture(3, x),
        lambda: restore_(3),
    ):
        with pytest.raises(WrongArgument, match="model is a int"):
            call()


def test_capture_lists_the_workloads_of_a_model(source: Local, x: Any) -> None:
    model = nn.Sequential(Block(usual), Block(usual), nn.Conv2d(6, 6, (2, 3), groups=6)).eval()
    first, second = capture(model, x)
    assert (first.calls, first.names) == (2, ["0.conv", "1.conv"])
    work: Any = first.workload
    assert (work.C, work.layout, work.bias, work.activation) == (6, "NHWC", True, "relu6")
    assert second.names == ["2"]
    assert first.order["calls"] == 2
    assert type(work).model_validate(first.order["workload"]) == work
    bare: Any = capture(model, x, fuse=("bias",))[0].workload
    assert (bare.bias, bare.activation) == (False, "none")
    here, there = (capture(model.to(kind), x.contiguous().to(kind)) for kind in ("cpu", "meta"))
    assert [each.workload for each in here] == [each.workload for each in there]
    (double,) = capture(nn.Sequential(nn.Conv1d(1, 1, 3)).double(), torch.randn(1, 1, 9).double())
    assert (double.workload, double.reason) == (
        None,
        "the input is torch.float64, and must be one of float32, float16, bfloat16",
    )
    with pytest.raises(WrongArgument, match=r"0 can't be tuned: the input is torch.float64"):
        _ = double.order
    optimised = Block(usual).eval()
    optimize_(optimised, x, source=source)
    with pytest.raises(WrongArgument, match="call restore_ on it"):
        capture(optimised, x)


def test_max_error_may_be_a_numpy_number(x: Any) -> None:
    (found,) = capture(Block(usual).eval(), x, max_error=np.float32(0.0078125))
    assert found.workload is not None
    assert found.workload.max_error == 0.0078125


def test_model_moved_to_the_meta_device_is_reported(source: Local, x: Any) -> None:
    model = Block(usual).eval().to("meta")
    (row,) = optimize_(model, x.to("meta"), source=source).rows
    assert row.by == "pytorch"
    with torch.device("meta"):  # the default device of new tensors
        (row,) = optimize_(Block(usual).to_empty(device="cpu").eval(), x, source=source).rows


def test_equal_infinities_are_no_difference() -> None:
    masked = torch.tensor([2.0, -torch.inf])
    assert difference(masked, masked) == 0
    assert difference(masked, torch.tensor([1.0, -torch.inf])) == 0.5
    assert difference(masked, torch.tensor([2.0, 1.0])) == torch.inf


def test_outputs_of_different_shapes_are_not_compared() -> None:
    assert difference([torch.ones(2)], [torch.ones(3)]) is None
    assert difference([torch.ones(2)], [torch.ones(2), torch.ones(2)]) is None


def test_nan_in_both_outputs_is_no_difference() -> None:
    before, after = torch.tensor([1.0, float("nan")]), torch.tensor([1.5, float("nan")])
    assert difference(before, after) == 0.5


def test_nan_in_one_output_is_a_difference() -> None:
    before, after = [torch.ones(3), torch.ones(3)], [torch.ones(3) + 0.5, torch.ones(3) / 0 * 0]
    assert difference(before, before) == 0
    for pair in (after, after[::-1]):
        assert str(difference(before, pair)) == "nan"
