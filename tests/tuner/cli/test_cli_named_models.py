"""``tuner model tune`` with a model's name: it is built, called without data, and ordered."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from service_process import Service
from stored_best import claimed

from db import queue
from db.contract.order import JobFilter
from tests.tuner.shell import ran
from tuner.client.client import Client
from tuner.errors import BadOrder, TunerError, UnusableModel

pytestmark = pytest.mark.torch
pytest.importorskip("torch", reason="PyTorch is not installed")
from tuner.torch.model.named_models import workloads_of  # noqa: E402

NETS = """
import torch
from torch import nn

class Images(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 1),
            nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
        )
        assert self.training

def signals():
    return nn.Sequential(nn.Conv1d(4, 4, 5, groups=4), nn.Conv1d(4, 4, 5, groups=4))

def lazy():
    images = nn.Sequential(nn.LazyConv2d(8, 3, groups=8), nn.LazyBatchNorm2d(), nn.ReLU())
    return nn.Sequential(images, nn.Flatten(), nn.LazyLinear(2))

def dense():
    return nn.Linear(8, 8)

def double():
    class Double(nn.Conv1d):
        def forward(self, x):
            return super().forward(x)
    return Double(4, 4, 3)

def of_data():
    class OfData(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x
    return OfData()

def fails():
    raise ValueError("no such width\\nat all")

number = 3
"""
TIMM = """
from own_nets import Images

__version__ = "1.0"

def is_model(name):
    return name == "images_050"

def list_models():
    return ["images_050", "another"]

def create_model(name, pretrained):
    made = Images()
    made.default_cfg = {"input_size": (3, 20, 24)}
    assert not pretrained
    return made
"""


@pytest.fixture(autouse=True)
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a module ``own_nets`` with models into the current folder, and forget it afterwards."""
    (tmp_path / "own_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in ("own_nets", "timm"):
        if "site-packages" not in str(getattr(sys.modules.get(name), "__file__", "")):
            sys.modules.pop(name, None)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in for timm before the installed one, if any."""
    (tmp_path / "timm.py").write_text(TIMM)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("timm", None)


@pytest.mark.parametrize("layout", [None, "NCHW", "NHWC"])
def test_image_model_gives_a_depthwise_conv2d_workload(layout: str | None) -> None:
    [found] = workloads_of("own_nets:Images", 32, "bfloat16", layout, (3, 28, 30))
    work: Any = found.workload
    assert (work.B, work.C, work.H, work.W, work.dtype) == (32, 8, 28, 30, "bfloat16")
    assert (work.layout, work.bias, work.activation) == (layout or "NCHW", True, "relu6")
    assert found.calls == 1


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_signal_model_gives_conv1d_workloads(layout: str) -> None:
    first, second = workloads_of("own_nets:signals", 2, "float32", layout, (4, 100))
    work: Any = first.workload
    assert (work.B, work.C, work.M, work.N, work.layout) == (2, 4, 100, 5, layout)
    assert (first.names, second.names) == (["0"], ["1"])


def test_lazy_layers_get_their_shapes_from_the_input() -> None:
    [found] = workloads_of("own_nets:lazy", 32, "bfloat16", None, (8, 28, 30))
    work: Any = found.workload
    assert (work.B, work.C, work.H, work.W, work.activation) == (32, 8, 28, 30, "relu")


@pytest.mark.usefixtures("stand_in")
def test_timm_gives_a_models_input_size_and_the_known_names() -> None:
    [found] = workloads_of("timm:images_050", 1, "float32")
    work: Any = found.workload
    assert (work.H, work.W) == (20, 24)
    with pytest.raises(UnusableModel, match=r"1\.0 has no such model, but has images_050$"):
        workloads_of("timm:images_100", 1, "float32")
    with pytest.raises(UnusableModel, match=r"but has those that timm\.list_models\(\) names"):
        workloads_of("timm:x", 1, "float32")


def test_workloads_of_timms_mobilenetv2_have_17_calls() -> None:
    pytest.importorskip("timm", reason="timm is not installed")
    found = workloads_of("timm:mobilenetv2_100", 32, "bfloat16", "NHWC")
    works: list[Any] = [each.workload for each in found]
    assert {(work.B, work.layout, work.activation) for work in works} == {(32, "NHWC", "relu6")}
    assert sum(each.calls for each in found) == 17


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("timm:any", None, "timm is not installed .*: pip install timm, or name another MODULE"),
        ("own_nets:Images", None, "names no input shape .default_cfg.: give --input, such as"),
        ("own_nets:Images", (4, 8, 8), "fails on an input of 1x4x8x8: RuntimeError: .* 3 channels"),
        ("own_nets:of_data", (4, 8, 8), "fails on an input of 1x4x8x8: DataDependent"),
        ("own_nets:dense", (4, 8, 8), "it calls no conv1d and no depthwise conv2d"),
        ("own_nets:fails", (4, 8), "own_nets:fails: it can't be built: ValueError: no such width$"),
        ("own_nets:number", (4, 8), "own_nets has no callable 'number'"),
        ("own_nets:Images.no", (4, 8), "own_nets has no callable 'Images.no'"),
        ("own_nets:torch.Size", (4, 8), "it makes a Size, and must make a torch.nn.Module"),
        ("no_such.nets:build", (4, 8), "no_such.nets can't be imported: ModuleNotFoundError"),
        (":build", (4, 8), "can't be imported: ValueError"),
    ],
)
def test_unusable_model_is_refused_with_the_reason(
    name: str, shape: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("timm"):
        monkeypatch.setitem(sys.modules, "timm", None)  # its import fails as if not installed
    with pytest.raises(TunerError, match=says):
        workloads_of(name, 1, "float32", None, shape)


def test_layout_that_does_not_fit_the_input_is_refused() -> None:
    with pytest.raises(BadOrder, match="layout: NHWC does not fit this input: give NCW or NWC"):
        workloads_of("own_nets:signals", 1, "float32", "NHWC", (4, 100))


def test_model_tune_passes_its_options_to_the_workloads(
    service: Service, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """The options reach the model's workloads in the order at a service. If the job fails, so does
    the command."""

    def work() -> None:
        while not queue.list_jobs(service.engine, JobFilter(state="queued")).items:
            time.sleep(0.05)
        job = claimed(service.engine)
        queue.finish(service.engine, job.id, job.attempt, "failed", "no luck")

    worker = Thread(target=work)
    worker.start()
    code, _, err = ran(
        capsys, "model", "tune", "own_nets:Images", "--input", "3x28x30", "--batch", "4",
        "--dtype", "float16", "--layout", "NHWC", "--target", "cpu", "--service", service.url,
    )  # fmt: skip
    worker.join()
    assert code == 1
    assert "own_nets:Images: 1 workloads in 1 calls" in err
    model = client.model(next(client.models()))
    assert model.name == "own_nets:Images"
    assert model.layers[0].workload["dtype"] == "float16"
    assert model.layers[0].workload["layout"] == "NHWC"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("own_nets:Images", "--input", "3x0x8"), "input: '3x0x8' is no input shape"),
        (("own_nets:Images", "--input", "8"), "give CxHxW or CxM, without the batch, as 3x224x224"),
        (("own_nets:double", "--input", "4x9"), "own_nets:double: none of its layers can be tuned"),
    ],
)
def test_model_tune_refuses_a_bad_input_and_an_untunable_model(
    given: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ran(capsys, "model", "tune", *given)
    assert (code, out) == (1, "")
    assert says in err
