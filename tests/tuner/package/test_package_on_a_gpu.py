"""A package for the GPU at hand, where there is nothing else than PyTorch and tvm-ffi."""

from pathlib import Path

import pytest
from packages import alone, built_for, database, written
from stored_best import store
from test_package_alone import CHECK, NOTHING_ELSE

from tuner.device import cuda_facts
from tuner.device.detect import detect
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


def test_it_computes_on_pytorchs_stream_and_in_a_graph(tmp_path: Path) -> None:
    child = Child()
    try:
        device = child.call(detect, "cuda", timeout=60)
    finally:
        child.close()
    with database(tmp_path) as (source, engine):
        store(engine, built_for(device, tmp_path))
        variant = written(source, tmp_path / "package")
    done = alone(variant, tmp_path / "site", NOTHING_ELSE + CALLS + CHECK)
    assert done.returncode == 0, done.stderr
    said, row, last, code = done.stdout.splitlines()
    assert "is computed by depthwise_conv2d-" in said
    assert "  right on " in row
    assert (last.partition(",")[0], code) == ("1 of 1 kernels ran", "0")
