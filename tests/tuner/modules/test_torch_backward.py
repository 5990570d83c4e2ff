"""A single tuned kernel computes all gradients of a causal layer, if there is one."""

from collections.abc import Iterator
from typing import Any

import pytest

from tuner.client.local import Local
from tuner.errors import NotTuned

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import tuner.torch  # noqa: E402
from tuner.torch import capture, optimize_  # noqa: E402
from tuner.torch.model.report import Report  # noqa: E402
from tuner.torch.modules import Conv1d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
BOTH = {"input": "tuned", "weight": "tuned"}
NONE = {"input": "pytorch", "weight": "pytorch"}


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def causal(source: Local, **how: Any) -> tuple[Conv1d, Any]:
    torch.manual_seed(7)
    weight, bias = nn.Parameter(torch.randn(4, 1, 4)), nn.Parameter(torch.randn(4))
    how = {"activation": "silu", "mode": "causal", "kind": "correlate", "groups": 4} | how
    x = torch.randn(2, 4, 61).requires_grad_()
    return Conv1d(weight, bias, source=source, **how), x


def gradients(module: Any, x: Any, call: Any = None, **given: Any) -> list[Any]:
    y = (module if call is None else call)(x, **given)
    torch.manual_seed(8)
    wanted = [each for each in (x, *module.parameters()) if each.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, wanted, torch.randn(y.shape).to(y.dtype))]


def plain(module: Any) -> Any:
    """Return a function that computes what the module does, by PyTorch."""
    return lambda x, **given: module.plain(x, module.weight, module.bias, **given)


def same(found: list[Any], exact: list[Any], tolerance: float = 2e-5) -> None:
    for one, other in zip(found, exact, strict=True):
        assert one.shape == other.shape
        assert (one - other).abs().max() <= tolerance * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_one_kernel_equal_pytorchs(at_once: Local, compiled: bool) -> None:
    """The gradients equal PyTorch's, with and without a compiled graph, and repeat bit for bit."""
    module, x = causal(at_once)
    run = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
    for _ in range(2):
        found = gradients(module, x, run)
        assert (module.used, module.used_backward) == ("tuned", BOTH)
        same(found, gradients(module, x, plain(module)))
    again = gradients(module, x, run)
    assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True))


def test_backward_kernel_is_used_only_if_input_and_weight_need_gradients(
    at_once: Local, trained: Local
) -> None:
    """The kernel for all gradients is used only if input and weight both need theirs; the bias need
    not. Separate kernels serve as well."""
    module, x = causal(at_once)
    module.weight.requires_grad_(False)
    same(gradients(module, x), gradients(module, x, plain(module)))
    assert module.used_backward == {"input": "pytorch"}
    module.weight.requires_grad_(True)
    module.bias.requires_grad_(False)  # type: ignore[union-attr]
    same(gradients(module, x), gradients(module, x, plain(module)))
    assert module.used_backward == BOTH
    module, x = causal(trained)  # this source has one kernel for each gradient
    same(gradients(module, x), gradients(module, x, plain(module)))
    assert module.used_backward == BOTH


@pytest.mark.parametrize("activation", ["relu", "gelu", "none"])
def test_pytorch_computes_an_untuned_activation(at_once: Local, activation: Any) -> None:
    module, x = causal(at_once, activation=activation)
    same(gradients(module, x), gradients(module, x, plain(module)))
    assert (module.used, module.used_backward) == ("pytorch", {})


def test_backward_kernel_is_not_used_with_a_residual(at_once: Local) -> None:
    module, x = causal(at_once)
    residual = torch.randn(2, 4, 61)
    given = {"residual": residual}
    same(gradients(module, x, **given), gradients(module, x, plain(module), **given))
    assert module.used_backward == NONE


def test_second_derivatives_are_right(at_once: Local) -> None:
    module, x = causal(at_once)

    def penalty(call: Any) -> list[Any]:
        (dx,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
        return list(torch.autograd.grad(dx.square().sum(), [x, *module.parameters()]))

    same(penalty(module), penalty(plain(module)), 1e-4)
    module.double()
    small = x[..., :5].detach().double().contiguous().requires_grad_()
    assert gradcheck(module, (small,))
    assert gradgradcheck(module, (small,))


def test_gradients_under_autocast_equal_pytorchs(at_once: Local) -> None:
    module, x = causal(at_once)
    with torch.autocast("cpu", torch.bfloat16):
        y, exact = module(x), plain(module)(x)
    wanted = [x, *module.parameters()]
    found = torch.autograd.grad(y.float().square().mean(), wanted)
    assert all(each.dtype == torch.float32 for each in found)
    same(list(found), list(torch.autograd.grad(exact.float().square().mean(), wanted)), 0.05)


@pytest.mark.parametrize("compiled", [False, True])
def test_operator_by_name_uses_the_backward_kernel(at_once: Local, compiled: bool) -> None:
    """The operator ``torch.ops.convtune.conv1d`` uses the kernel for its gradients too."""
    module, x = causal(at_once)
    w, b = module.weight, module.bias
    tuner.torch.use(at_once)
    operator = torch.ops.convtune.conv1d

    def call(x: Any) -> Any:
        return operator(x, w, b, padding=[3, 0], groups=4, activation="silu")

    try:
        run = torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call
        same(gradients(module, x, run), gradients(module, x, plain(module)))
        layers = tuner.torch.operators._CONV1D._layers.values()
        assert [layer.used_backward for layer in layers if layer is not None] == [BOTH]
    finally:
        tuner.torch.use(None)


class Causal(nn.Module):
    def __init__(self, taps: int = 4, **how: Any) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.first = nn.Conv1d(4, 4, 1)
        self.conv = nn.Conv1d(4, 4, taps, padding=taps - 1, **{"groups": 4} | how)
        self.act = nn.SiLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.conv(self.first(x))[..., : x.shape[-1]])


def directions(model: nn.Module, x: Any) -> list[tuple[str, str]]:
    """Return direction and activation of the model's tuned workloads in training."""
    found: list[Any] = [each.workload for each in capture(model, x, mode="training")]
    return [(each.direction, each.activation) for each in found if not each.is_dense]


def test_capture_lists_one_backward_workload_for_a_causal_layer() -> None:
    x = torch.randn(2, 4, 61)
    assert directions(Causal(), x) == [("forward", "silu"), ("backward", "silu")]
    # The second forward workload computes the sums, which separate gradients need.
    apart = ["forward", "forward", "backward_input", "backward_weight"]
    assert [each for each, _ in directions(Causal(taps=40), x)] == apart
    assert [each for each, _ in directions(Causal(stride=2), x)] == [apart[0], *apart[2:]]
    model = Causal()
    model.first.requires_grad_(False)  # then the gradient of the layer's input is not needed
    assert ("backward_weight", "silu") in directions(model, x)


@pytest.mark.parametrize(
    ("kind", "expected"), [("at_once", ["backward"]), ("trained", ["input", "weight"])]
)
def test_report_lists_the_gradient_kernels_that_are_tuned(
    kind: str, expected: list[str], request: pytest.FixtureRequest
) -> None:
    model, x = Causal(), torch.randn(2, 4, 61)
    report = optimize_(model, x, source=request.getfixturevalue(kind), mode="training")
    rows = [row for row in report.rows if "conv" in row.names and "backward" in row.shape]
    assert [row.by for row in rows] == ["tuned"] * len(expected)
    for row, name in zip(rows, expected, strict=True):
        assert name in row.shape
    y = model(x)
    y.square().sum().backward()
    assert model.conv.used_backward == BOTH


def test_separately_tuned_gradients_do_not_count_as_missing(trained: Local, at_once: Local) -> None:
    def optimized(source: Local, taps: int = 4) -> Report:
        return optimize_(
            Causal(taps), torch.randn(2, 4, 61), source=source, mode="training",
            on_missing="raise", filter_fn=lambda _, name: name == "conv",
        )  # fmt: skip

    for source in (trained, at_once):
        assert {row.by for row in optimized(source).rows} == {"tuned"}
    with pytest.raises(NotTuned, match=r"(?s)2 workloads .*--direction backward "):
        optimized(trained, taps=5)
