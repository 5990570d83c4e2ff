"""The peers of torch.compile compute what the workload asks for; without a compiler they are
dropped with the reason.

They are compiled for the CPU here, which takes seconds for each shape."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import templates
from templates.workload import Workload
from tuner.compare.stage import prepare_peers
from tuner.device.cpu_facts import threads as host_threads
from tuner.measure.cases import CASES, draw
from tuner.measure.check import relative_error
from tuner.measure.trial import RunOrder, write_cases
from tuner.peers import PYTORCH, pytorch_compiled_peer
from tuner.peers.torch_arrays import to_array, to_tensor
from tuner.process.child import Child

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch's compiler warns of PyTorch's own code
]

SIGNALS = {"B": 2, "C": 8, "M": 50, "N": 4, "mode": "causal", "bias": True, "activation": "silu"}


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    """Reset the compiler after the test: PyTorch limits how many shapes it compiles a function
    for in one process."""
    yield
    torch.compiler.reset()


def workload(operator: str, **shape: Any) -> Any:
    return templates.operator(operator).workload.model_validate(shape)


def compiled(work: Workload, *forms: str) -> list[Any]:
    """Return the compiled peers of the workload, which must be those of the given forms and, if the
    CPU has several threads, the same with one thread."""
    found = list(pytorch_compiled_peer.BY_OPERATOR[work.operator](work, "cpu"))
    names = expected(forms)
    assert sorted(peer.name for peer in found) == sorted(names)
    return found


def expected(forms: Sequence[str]) -> list[str]:
    names = [f"pytorch compiled {form}".strip() for form in forms]
    alone = [f"{name} 1 thread" for name in names] if host_threads() > 1 else []
    return [*names, *alone]


@pytest.mark.parametrize(
    ("operator", "shape", "forms"),
    [
        ("conv1d", SIGNALS, ["NCW", "NWC", "shifts"]),
        ("conv1d", SIGNALS | {"layout": "NWC", "residual": True}, ["NCW", "NWC", "shifts"]),
        ("conv1d", SIGNALS | {"F": 6, "groups": 1, "dtype": "bfloat16"}, ["NCW", "NWC"]),
        ("conv1d", {"M": 100, "N": 17, "mode": "same", "activation": "gelu"}, [""]),
        (
            "depthwise_conv2d",
            {"B": 2, "C": 3, "H": 9, "W": 4, "K": 3, "stride": 2, "activation": "relu6"},
            ["NCHW", "NHWC"],
        ),
    ],
)
def test_compiled_peers_are_right_in_each_form(
    operator: str, shape: dict[str, Any], forms: list[str]
) -> None:
    work = workload(operator, **shape)
    found = compiled(work, *forms)
    for name in CASES:
        given = draw(work, name, np.random.default_rng(3))
        exact = templates.operator(operator).reference(work, *given)
        for peer in found:
            kernel = peer.prepare(*given)
            kernel.call()
            output = peer.output()
            assert (output.shape, output.dtype) == (work.output.shape, work.dtype)
            assert relative_error(output, exact) < work.max_error


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
@pytest.mark.parametrize(
    "shape",
    [
        SIGNALS | {"dtype": "float16", "residual": True},
        {"B": 2, "C": 3, "F": 6, "M": 40, "N": 5, "padding": (3, 9), "stride": 2, "dilation": 3},
        {"B": 1, "C": 3, "M": 9, "N": 16, "bias": True, "kind": "correlate"},
        {"M": 64, "N": 1, "activation": "hardswish"},
    ],
)
def test_sum_of_shifts_equals_a_convolution(shape: dict[str, Any], layout: str) -> None:
    """The function that is compiled for the form "shifts" is also right without compilation. The
    tests above compile it."""
    work = workload("conv1d", **shape, layout=layout)
    for name in CASES:
        given = draw(work, name, np.random.default_rng(3))
        tensors = [to_tensor(array, "cpu") for array in given]
        y = to_array(pytorch_compiled_peer.sum_of_shifts(work, None, *tensors)())
        assert (y.shape, y.dtype) == (work.output.shape, work.dtype)
        exact = templates.operator("conv1d").reference(work, *given)
        assert relative_error(y, exact) < work.max_error


@pytest.mark.parametrize("times", [1, 2])
def test_compiling_ahead_runs_no_convolution(times: int) -> None:
    """Compiling ahead runs no convolution, because on a GPU cuDNN would search for algorithms in
    it. The later calls compile nothing."""
    work = workload("conv1d", **SIGNALS)
    given = draw(work, "normal", np.random.default_rng(3))
    exact = templates.operator("conv1d").reference(work, *given)
    tensors = [to_tensor(array, "cpu") for array in given]
    peer = compiled(work, "NCW", "NWC", "shifts")[0]
    call = peer._form.call(work, torch.contiguous_format, *tensors)
    with torch.inference_mode():
        with torch.profiler.profile() as ahead:
            for _ in range(times):
                pytorch_compiled_peer.ahead(call)
        counters = torch._dynamo.utils.counters
        compilations = counters["stats"]["unique_graphs"]
        with torch.profiler.profile() as later:
            y = call()
    assert counters["stats"]["unique_graphs"] == compilations > 0
    convolutions = ["aten::convolution", "aten::conv1d", "aten::_convolution"]
    assert not {event.name for event in ahead.events()} & {"aten::mkldnn_convolution"}
    assert {event.name for event in later.events()} & {*convolutions, "aten::mkldnn_convolution"}
    assert relative_error(to_array(y).reshape(work.output.shape), exact) < work.max_error


def test_compiled_peers_are_dropped_with_the_reason_without_a_compiler(tmp_path: Path) -> None:
    work = workload("conv1d", **SIGNALS)
    write_cases(work.key, tmp_path, 0)
    order = RunOrder(work.key, tmp_path / "none.so", tmp_path, "cpu", 2**20)
    nothing = {"CXX": "/nowhere/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    with closing(Child(nothing)) as child:
        found = child.call(prepare_peers, order, PYTORCH, timeout=200)
    assert {"pytorch NCW", "pytorch NWC"} <= found.subjects.keys()
    assert found.dropped.keys() == {*expected(["NCW", "NWC", "shifts"])}
    assert all("/nowhere/g++" in reason for reason in found.dropped.values())
