"""A package for this machine's GPU runs with nothing installed but PyTorch and tvm-ffi."""

from pathlib import Path

import pytest
from packages import alone, built_for, database, written
from stored_best import store
from test_package_alone import BEGINNING, CHECK

from tuner.device import cuda_facts
from tuner.device.detect import detect
from tuner.device.device import Device
from tuner.process.child import Child

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
if cuda_facts.missing() is not None:
    pytest.skip(f"no GPU: {cuda_facts.missing()}", allow_module_level=True)

CALLS = """
x = torch.randn(2, 3, 9, 20, device="cuda")
w = torch.randn(3, 1, 3, 3, device="cuda")
reference = torch.nn.functional.conv2d(x, w, padding=1, groups=3)
with torch.cuda.stream(torch.cuda.Stream()):
    y = shipped.depthwise_conv2d(x, w, padding=1)
torch.cuda.synchronize()
torch.testing.assert_close(y, reference, atol=1e-4, rtol=0)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = shipped.depthwise_conv2d(x, w, padding=1)
y.zero_()
graph.replay()
torch.testing.assert_close(y, reference, atol=1e-4, rtol=0)
"""


@pytest.fixture
def device() -> Device:
    child = Child()
    try:
        return child.call(detect, "cuda", timeout=60)
    finally:
        child.close()


def test_package_computes_on_pytorchs_stream_and_in_a_cuda_graph(
    device: Device, tmp_path: Path
) -> None:
    with database(tmp_path) as (source, engine):
        store(engine, built_for(device, tmp_path))
        variant = written(source, tmp_path / "package")
    done = alone(variant, tmp_path / "site", BEGINNING + CALLS + CHECK)
    assert done.returncode == 0, done.stderr
    said, row, last, code = done.stdout.splitlines()
    assert "is computed by depthwise_conv2d-" in said
    assert "  right on " in row
    assert (last.partition(",")[0], code) == ("1 of 1 kernels ran", "0")


def test_each_gpu_computes_the_models_on_it(device: Device, tmp_path: Path) -> None:
    """Each GPU computes the models on it, by modules and by operators' names, with and without a
    captured graph. PyTorch's current device stays the first GPU."""
    import torch

    import tuner.torch

    gpus = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    if len(gpus) < 2:
        pytest.skip("needs two GPUs")
    with database(tmp_path) as (source, engine):
        store(engine, built_for(device, tmp_path))
        tuner.torch.use(source)
        for gpu in gpus:
            x = torch.randn(2, 3, 9, 20, device=gpu)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False))
            model = model.to(gpu).eval()
            with torch.no_grad():
                reference = model.double()(x.double()).float()
                model.float()
                report = tuner.torch.optimize_(model, x, source=source)
                assert [row.by for row in report.rows] == ["tuned"], str(report)
                y = model(x)
                named = torch.ops.convtune.depthwise_conv2d(x, model[0].weight, padding=[1, 1])
            assert y.device == named.device == gpu
            torch.testing.assert_close(y, reference, atol=1e-4, rtol=0)
            torch.testing.assert_close(named, reference, atol=1e-4, rtol=0)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.device(gpu), torch.no_grad():
                with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                    z = model(x)
                z.zero_()
                graph.replay()
                torch.cuda.synchronize()
            assert torch.equal(z, y)
        tuner.torch.use(None)
    assert torch.cuda.current_device() == 0
