"""A launch that begins before the work before it has ended reads what that work wrote. The work is
a kernel, a copy, another stream's kernel or a launch of the same library."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.cuda.fft import CudaFft
from templates.conv1d.cuda.hankel import CudaHankel
from templates.conv1d.cuda.partitions import CudaPartitions
from templates.conv1d.cuda.registers import CudaRegisters
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.cuda.channels import CudaChannels
from templates.depthwise_conv2d.cuda.channels_toeplitz import CudaChannelsToeplitz
from templates.depthwise_conv2d.cuda.rows import CudaRows
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tests.gpu.loaded import loaded
from tuner.device.detect import detect
from tuner.library.load import Library
from tuner.process.child import Child

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SHORT, MIDDLE, LONG = (Conv1dWorkload(M=500_009, N=n, mode="same") for n in (9, 511, 8191))
APART = Conv1dWorkload(B=3, C=48, M=504, N=31, mode="same", dtype="float16")
ROWS = Conv1dWorkload(B=3, C=50, M=5003, N=9, mode="same", dtype="bfloat16")
LAYER, LOW, WHOLE = (
    DepthwiseConv2dWorkload(B=32, C=C, H=side, W=side, K=5, layout="NHWC", dtype="float16")
    for C, side in ((72, 28), (1152, 7), (96, 28))
)
PLANES = DepthwiseConv2dWorkload(B=32, C=72, H=28, W=28, K=5)
HELD_KIB = 114  # a unit of an H100 or H200 has room for one such block
EARLY, LATE = ({"next_launch": each} for each in ("early", "late"))
TENSOR = {"copies": "tensor"}
TEAMS = {"points": 3072, "segments": 2, "spectrum": "shared", "teams": 2}
FORMS: dict[str, tuple[Any, Workload, dict[str, Any]]] = {
    "one launch": (CudaRegisters(), SHORT, LATE),
    "one that lets the next begin at once": (CudaRegisters(), SHORT, EARLY),
    "one of several rows that does": (CudaRegisters(), ROWS, EARLY),
    "one of channels apart that does": (CudaHankel(), APART, EARLY),
    "several": (CudaPartitions(), LONG, {}),
    "several that let the next begin": (CudaPartitions(), LONG, {"held_kib": HELD_KIB}),
    "one that lets the next begin": (CudaFft(), MIDDLE, {"held_kib": HELD_KIB}),
    "one of two teams that does": (CudaFft(), MIDDLE, TEAMS | {"held_kib": HELD_KIB}),
    "one by tensor copies": (CudaChannelsToeplitz(), LAYER, TENSOR | LATE),
    "one by tensor copies that does": (CudaChannelsToeplitz(), LAYER, TENSOR | EARLY),
    "one that holds planes and does": (CudaChannelsToeplitz(), LOW, {"piece": 2} | EARLY),
    "one by threads that does": (CudaChannelsToeplitz(), WHOLE, {"copies": "threads"} | EARLY),
    "one with its own weights that does": (CudaChannels(), LAYER, EARLY),
    "one of planes that does": (CudaRows(), PLANES, EARLY),
}
ROUNDS = 20
SLEEP = 200_000
"""Cycles of a pause before the input of a launch is written: about 0.1 ms."""


@pytest.fixture(scope="module", params=FORMS)
def library(request: pytest.FixtureRequest, child: Child, tmp_path_factory: Any) -> Library:
    template, work, knobs = FORMS[request.param]
    limits = child.call(detect, "cuda", timeout=60).limits
    if {"held_kib", "next_launch"} & set(knobs) and not limits.begins_launches_early:
        pytest.skip("launches of this device do not begin early")
    if {"copies", "piece"} & set(knobs) and not limits.copies_tensors:
        pytest.skip("this device does not copy tensors")
    config = template.default(work, limits) | knobs
    assert config in template.space(work, limits)
    path: Path = tmp_path_factory.mktemp("early") / "library.so"
    return loaded(work, template, config, child, path)


def by_kernels(source: Any, x: Any, library: Library, w: Any) -> None:
    torch.cuda._sleep(SLEEP)
    torch.mul(source, 1.0, out=x)


def by_copy(source: Any, x: Any, library: Library, w: Any) -> None:
    torch.cuda._sleep(SLEEP)
    x.copy_(source)


def by_another_stream(source: Any, x: Any, library: Library, w: Any) -> None:
    here, other = torch.cuda.current_stream(), torch.cuda.Stream()
    other.wait_stream(here)
    with torch.cuda.stream(other):
        torch.cuda._sleep(SLEEP)
        torch.mul(source, 1.0, out=x)
    here.wait_stream(other)


def by_itself(source: Any, x: Any, library: Library, w: Any) -> None:
    library(source, w, x)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("write", [by_kernels, by_copy, by_another_stream, by_itself])
def test_early_launch_reads_data_written_just_before_it(
    library: Library, write: Callable[..., None], captured: bool
) -> None:
    source, w = (
        torch.randn(each.shape, device="cuda").to(getattr(torch, each.dtype))
        for each in library.workload.inputs
    )
    w /= 8  # otherwise sums of sums may be too large for float16
    x, y = (torch.empty_like(source) for _ in range(2))
    write(source, x, library, w)
    torch.cuda.synchronize()
    library(x, w, y)
    torch.cuda.synchronize()
    expected = y.clone()

    def once() -> None:
        y.fill_(float("nan"))
        x.fill_(float("nan"))
        write(source, x, library, w)
        library(x, w, y)
        library(y, w, x)  # overwrites x, which the launch before must have read
        library(x, w, other)

    other = torch.empty_like(y)
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            once()
        run = graph.replay
    else:
        run = once
    found = []
    for _ in range(ROUNDS):
        run()
        found.append((y.clone(), other.clone()))
    torch.cuda.synchronize()
    assert all(torch.equal(mine, expected) for mine, _ in found)
    assert all(torch.equal(last, found[0][1]) for _, last in found)
    assert found[0][1].isfinite().all()
