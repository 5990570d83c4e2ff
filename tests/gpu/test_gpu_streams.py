"""One library with a workspace is right if two threads call it on two streams while a graph that
calls it is replayed on a third, or on two GPUs at once."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from templates.conv1d.cuda.partitions import CudaPartitions
from templates.conv1d.workload import Conv1dWorkload
from tests.gpu.loaded import loaded
from tuner.device.detect import detect
from tuner.library.load import Library
from tuner.process.child import Child

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

WORK = Conv1dWorkload(M=20011, N=4099, mode="same")
ROUNDS = 40


@pytest.fixture(scope="module", params=["fused", "apart"])
def library(request: pytest.FixtureRequest, child: Child, tmp_path_factory: Any) -> Library:
    template, limits = CudaPartitions(), child.call(detect, "cuda", timeout=60).limits
    config = template.default(WORK, limits) | {"points": 2048, "products": request.param}
    config |= {"together": 2} if request.param == "apart" else {}
    assert config in template.space(WORK, limits)
    path: Path = tmp_path_factory.mktemp("streams") / f"{request.param}.so"
    return loaded(WORK, template, config, child, path)


def given(gpu: str = "cuda") -> tuple[Any, Any]:
    return torch.randn(WORK.M, device=gpu), torch.randn(WORK.N, device=gpu)


def error(y: Any, x: Any, w: Any) -> float:
    exact = torch.from_numpy(np.convolve(x.double().cpu(), w.double().cpu(), "same"))
    return float((y.double().cpu() - exact).abs().max() / exact.abs().max())


def by_address(library: Library, gpu: int) -> Any:
    run = library.by_address(gpu)
    assert run is not None

    def call(x: Any, w: Any) -> Any:
        y = torch.empty(WORK.length, device=x.device)
        run(x.data_ptr(), w.data_ptr(), y.data_ptr())
        return y

    return call


@pytest.mark.parametrize("addresses", [False, True])
def test_two_threads_and_a_graph_call_one_library_at_once(
    library: Library, addresses: bool
) -> None:
    called = by_address(library, 0) if addresses else library
    inputs = [given() for _ in range(3)]
    replayed = torch.empty(WORK.length, device="cuda")
    library(*inputs[2], replayed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        library(*inputs[2], replayed)
    outputs: list[list[Any]] = [[], [], []]
    together = threading.Barrier(3)

    def call(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            together.wait()
            torch.cuda._sleep(20_000_000)  # 10 ms, so that calls queue up on all three streams
            for _ in range(ROUNDS):
                if number == 2:
                    replayed.fill_(float("nan"))
                    graph.replay()
                    outputs[2].append(replayed.clone())
                else:
                    outputs[number].append(called(*inputs[number]))
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine, (x, w) in zip(outputs, inputs, strict=True):
        assert len(mine) == ROUNDS
        assert error(mine[0], x, w) < WORK.max_error
        assert all(torch.equal(each, mine[0]) for each in mine[1:])


@pytest.mark.parametrize("addresses", [False, True])
def test_two_gpus_compute_with_one_library_at_once(library: Library, addresses: bool) -> None:
    """PyTorch's current GPU may be either; for a call by address it must be the tensors' own."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    inputs = [given("cuda:0"), given("cuda:1")]
    outputs: list[list[Any]] = [[], []]
    together = threading.Barrier(2)

    def call(number: int) -> None:
        if addresses:
            torch.cuda.set_device(number)  # for this thread only
        called = by_address(library, number) if addresses else library
        together.wait()
        for _ in range(ROUNDS):
            outputs[number].append(called(*inputs[number]))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for gpu, (mine, (x, w)) in enumerate(zip(outputs, inputs, strict=True)):
        assert len(mine) == ROUNDS
        assert mine[0].device == torch.device("cuda", gpu)
        assert error(mine[0], x, w) < WORK.max_error
        assert all(torch.equal(each, mine[0]) for each in mine[1:])
    assert torch.cuda.current_device() == 0
