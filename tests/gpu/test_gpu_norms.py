"""CUDA graphs of a model whose batch norm is folded into a kernel. A graph reads the folded values,
so a replay has new values once these are folded."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch uses its deprecated functions
]
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402

from tuner.torch import optimize_  # noqa: E402


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    torch.compiler.reset()
    with torch.no_grad():
        yield
    torch.compiler.reset()


@pytest.fixture
def x() -> Any:
    torch.manual_seed(1)
    x = torch.randn(8, 64, 14, 14, device="cuda", dtype=torch.half)
    return x.to(memory_format=torch.channels_last)


@pytest.fixture
def pair(source: Local, x: Any) -> tuple[Any, Any]:
    """Return a model as PyTorch computes it, and an optimised copy."""
    torch.manual_seed(0)
    layer = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
    plain = nn.Sequential(layer, nn.BatchNorm2d(64), nn.ReLU6()).eval().cuda().half()
    plain.to(memory_format=torch.channels_last)
    tuned = copy.deepcopy(plain)
    optimize_(tuned, x, source=source, on_missing="tune", budget_seconds=4)
    assert tuned[0].norm is not None
    change(plain, tuned)
    tuned(x)
    assert tuned[0].used == "tuned"
    return plain, tuned


def change(*models: Any) -> None:
    """Write the same new values to the models' layers and norms."""
    torch.manual_seed(int(models[0][1].bias[0].item() * 1000) % 1000 + 1)
    gain, shift, scale = (torch.rand(64, device="cuda") + 0.5 for _ in range(3))
    for model in models:
        model[0].weight.mul_(scale[:, None, None, None].half())
        model[1].weight.copy_(gain)
        model[1].bias.copy_(shift)
        model[1].running_mean.copy_(-shift)


def captured(model: Any, x: Any) -> tuple[Any, Any]:
    """Return a CUDA graph of a call of the model, and the call's output."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    return graph, y


def close(y: Any, expected: Any) -> bool:
    return bool(torch.allclose(y.float(), expected.float(), atol=1e-2, rtol=5e-3))


def test_replay_reads_values_folded_after_its_capture(pair: Any, x: Any) -> None:
    plain, tuned = pair
    graph, y = captured(tuned, x)
    for _ in range(2):
        before = plain(x)
        change(plain, tuned)
        assert not close(plain(x), before)
        tuned(x)
        other = {name: value + 1 for name, value in plain.state_dict().items()}
        assert close(functional_call(tuned, other, (x,)), functional_call(plain, other, (x,)))
        y.fill_(float("nan"))
        graph.replay()
        assert close(y, plain(x))


def test_graph_captured_right_after_a_write_folds_in_each_replay(pair: Any, x: Any) -> None:
    """The graph folds the norm's values anew in each replay."""
    plain, tuned = pair
    change(plain, tuned)
    graph, y = captured(tuned, x)
    for _ in range(2):
        graph.replay()
        assert close(y, plain(x))
        assert close(tuned(x), plain(x))
        change(plain, tuned)


def test_torch_compile_graphs_read_values_folded_later(pair: Any, x: Any) -> None:
    plain, tuned = pair
    compiled = torch.compile(tuned, mode="reduce-overhead", fullgraph=True)
    for _ in range(2):
        for _ in range(4):
            assert close(compiled(x), plain(x))
        change(plain, tuned)
        tuned(x)
    assert tuned[0].used == "tuned"


@pytest.mark.parametrize("moved", [False, True], ids=["written", "moved"])
def test_graph_compiled_right_after_a_change_is_right(pair: Any, x: Any, moved: bool) -> None:
    """Values folded while PyTorch warms the graph up must not lie in the graph's memory."""
    plain, tuned = pair
    change(plain, tuned)
    if moved:
        values = {name: value.clone() for name, value in tuned.state_dict().items()}
        tuned.load_state_dict(values, assign=True)
    compiled = torch.compile(tuned, mode="reduce-overhead", fullgraph=True)
    for _ in range(4):
        assert close(compiled(x), plain(x))
    assert tuned[0].used == "tuned"
