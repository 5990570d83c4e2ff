"""CUDA libraries take PyTorch's tensors, run on PyTorch's current stream and can be captured in a
CUDA graph."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import templates
from tests.gpu.loaded import loaded
from tuner.client.source import Source
from tuner.device.detect import detect
from tuner.errors import WrongDevice, WrongLayout
from tuner.library.load import Library
from tuner.process.child import Child

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SHAPES: dict[str, dict[str, Any]] = {
    "conv1d": {"M": 16384, "N": 32, "mode": "same"},
    "depthwise_conv2d": {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7},
}
WORKLOADS = {
    f"{name} {dtype}": templates.operator(name).workload.model_validate(shape | {"dtype": dtype})
    for name, shape in SHAPES.items()
    for dtype in ("float32", "float16")
}


@pytest.fixture(scope="module", params=list(WORKLOADS))
def library(
    request: pytest.FixtureRequest, child: Child, tmp_path_factory: pytest.TempPathFactory
) -> Library:
    work = WORKLOADS[request.param]
    limits = child.call(detect, "cuda", timeout=60).limits
    template = templates.templates_for(work, limits)[0]
    path: Path = tmp_path_factory.mktemp("cuda") / f"{request.param}.so"
    return loaded(work, template, template.default(work, limits), child, path)


def arrays(library: Library) -> tuple[Any, Any]:
    work = library.workload
    dtype = getattr(torch, work.dtype)
    shapes = [argument.shape for argument in work.inputs]
    return tuple(torch.randn(shape, device="cuda").to(dtype) for shape in shapes)


def expected(x: Any, w: Any) -> Any:
    """Return the output in float64, computed on the host."""
    x, w = x.double().cpu(), w.double().cpu()
    if x.ndim == 1:
        return torch.from_numpy(np.convolve(x.numpy(), w.numpy(), "same"))
    return torch.nn.functional.conv2d(x, w, padding=w.shape[-1] // 2, groups=w.shape[0])


def right(y: Any, reference: Any) -> bool:
    limit = 1e-3 if y.dtype == torch.float16 else 1e-5
    return float((y.cpu() - reference).abs().max() / reference.abs().max()) < limit


def test_library_output_is_right(library: Library) -> None:
    x, w = arrays(library)
    y = library(x, w)
    assert y.device == x.device
    assert right(y, expected(x, w))
    out = torch.full_like(y, float("nan"))
    assert library(x, w, out) is out
    assert right(out, expected(x, w))


def test_library_runs_on_the_current_stream(library: Library) -> None:
    """The input is copied late, on another stream than the default one: the library reads the copy
    only if it runs on that stream."""
    x, w = arrays(library)
    reference = expected(x, w)
    late, out = torch.zeros_like(x), x.new_empty(library.workload.output.shape)
    library(late, w, out)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)  # 0.1 s: on another stream the library would run before it
        late.copy_(x)
        library(late, w, out)
        torch.cuda.current_stream().synchronize()
    assert right(out, reference)


def test_library_can_be_captured_in_a_cuda_graph(library: Library) -> None:
    x, w = arrays(library)
    out = x.new_empty(library.workload.output.shape)
    library(x, w, out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        library(x, w, out)
    x.normal_()
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert right(out, expected(x, w))


def test_a_call_by_address_runs_on_the_current_stream(library: Library) -> None:
    """The call leaves the stream of other tvm-ffi functions as it was."""
    x, w = arrays(library)
    reference = expected(x, w)
    late, out = torch.zeros_like(x), x.new_empty(library.workload.output.shape)
    by_address = library.by_address(0)
    assert by_address is not None
    by_address(late.data_ptr(), w.data_ptr(), out.data_ptr())
    torch.cuda.synchronize()
    of_others = tvm_ffi.get_raw_stream(tvm_ffi.device("cuda:0"))
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        late.copy_(x)
        by_address(late.data_ptr(), w.data_ptr(), out.data_ptr())
        torch.cuda.current_stream().synchronize()
    assert right(out, reference)
    assert tvm_ffi.get_raw_stream(tvm_ffi.device("cuda:0")) == of_others


def test_library_needs_only_the_alignment_of_elements(library: Library) -> None:
    """Each of the tensors in turn begins one element behind an aligned address."""
    x, w = arrays(library)
    work = library.workload
    shapes = [argument.shape for argument in work.arguments]
    for which in range(3):
        shifted = []
        for i, shape in enumerate(shapes):
            size, start = int(np.prod(shape)), int(i == which)
            memory = x.new_zeros(size + 1)
            shifted.append(memory[start : start + size].view(shape))
        shifted[0].copy_(x)
        shifted[1].copy_(w)
        assert right(library(*shifted), expected(x, w))


def test_library_refuses_tensors_of_a_wrong_device_or_layout(library: Library) -> None:
    x, w = arrays(library)
    with pytest.raises(WrongDevice, match="input must be on cuda, but is on cpu"):
        library(x.cpu().numpy(), w)
    with pytest.raises(WrongDevice, match="weight must be on cuda, but is on cpu"):
        library(x, w.cpu())
    with pytest.raises(WrongLayout, match="input must be contiguous"):
        library(torch.stack([x, x], -1)[..., 0], w)


def test_library_takes_a_parameter_on_the_current_stream(library: Library) -> None:
    """A parameter is not a plain tensor: the library looks at it before it passes it on, and takes
    it under ``no_grad``."""
    x, w = arrays(library)
    reference = expected(x, w)
    late, out = torch.zeros_like(x), x.new_empty(library.workload.output.shape)
    weight = torch.nn.Parameter(w)
    with torch.no_grad():
        library(late, weight, out)
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(200_000_000)
            late.copy_(x)
            library(late, weight, out)
            torch.cuda.current_stream().synchronize()
    assert right(out, reference)


class Alone:
    """A best without baselines."""

    fastest = None
    workload: dict[str, Any] = {}  # noqa: RUF012

    def model_dump(self) -> dict[str, Any]:
        return {"baselines": ()}


class OneLibrary(Source):
    """A source that has one library, whatever workload it is asked for."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def best(self, *_: Any, **asked: Any) -> Any:
        assert asked["device"] == torch.cuda.get_device_name()
        return Alone()

    def load(self, _: Any) -> Library:
        return self.library

    def close(self) -> None: ...

    def _content(self, _: Any) -> Any:
        raise NotImplementedError

    def _trusted(self, _: str) -> Any:
        raise NotImplementedError


def test_module_runs_the_library(library: Library) -> None:
    from tuner.torch.modules import Conv1d, DepthwiseConv2d

    x, w = arrays(library)
    source = OneLibrary(library)
    module = (
        Conv1d(w, source=source, mode="same") if x.ndim == 1 else DepthwiseConv2d(w, source=source)
    )
    reference = expected(x, w)
    assert right(module(x), reference)
    assert module.used == "tuned", module.reason
    graph = torch.cuda.CUDAGraph()
    late = torch.zeros_like(x)
    with torch.cuda.graph(graph):
        y = module(late)
    assert module.used == "tuned", module.reason
    late.copy_(x)
    graph.replay()
    assert right(y, reference)
    fresh = (
        Conv1d(w, source=source, mode="same") if x.ndim == 1 else DepthwiseConv2d(w, source=source)
    )
    # PyTorch's first call can't be captured either, so it is made beforehand
    fresh.plain(late, fresh.weight, fresh.bias)
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        fresh(late)
    assert fresh.used == "pytorch"
    assert fresh.reason.startswith("a CUDA graph is being captured")
