"""Gradients of the modules: computed by tuned kernels if there are any, else by PyTorch."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import train  # noqa: E402
from torch import nn  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import tuner.errors  # noqa: E402
import tuner.torch  # noqa: E402
from tuner.torch import capture, optimize_, restore_  # noqa: E402
from tuner.torch.model.named_models import workloads_of  # noqa: E402
from tuner.torch.module_operator import NO_NORM  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
BOTH = {"input": "tuned", "weight": "tuned"}
ACTIVATIONS = ["none", "relu", "relu6", "silu", "gelu", "hardswish"]


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def drawn(*shape: int, last: bool = False, grad: bool = True) -> Any:
    x = torch.randn(*shape)
    if last:
        x = x.to(memory_format=torch.channels_last)
    return x.requires_grad_(grad)


def images(trained: Local, **how: Any) -> tuple[Any, Any]:
    """Return a module whose gradients are tuned, and an input for it."""
    torch.manual_seed(5)
    weight = nn.Parameter(torch.randn(3, 1, 3, 3))
    return DepthwiseConv2d(weight, source=trained, **how), drawn(2, 3, 9, 20)


def last(trained: Local, **how: Any) -> tuple[Any, Any]:
    torch.manual_seed(6)
    weight, bias = nn.Parameter(torch.randn(6, 1, 3, 3)), nn.Parameter(torch.randn(6))
    return DepthwiseConv2d(weight, bias, source=trained, **how), drawn(2, 6, 7, 9, last=True)


def causal(trained: Local, **how: Any) -> tuple[Any, Any]:
    torch.manual_seed(7)
    weight, bias = nn.Parameter(torch.randn(4, 1, 4)), nn.Parameter(torch.randn(4))
    how = {"activation": "silu", "mode": "causal", "kind": "correlate", "groups": 4} | how
    return Conv1d(weight, bias, source=trained, **how), drawn(2, 4, 61)


CASES = {"images": images, "last": last, "causal": causal}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def gradients(module: Any, x: Any, call: Any = None, **given: Any) -> list[Any]:
    """Return the output, then the gradients of input, parameters and ``given``; the output's
    gradient is random but always the same."""
    y = (module if call is None else call)(x, **given)
    torch.manual_seed(8)
    wanted = [x, *module.parameters(), *(each for each in given.values())]
    return [y.detach(), *torch.autograd.grad(y, wanted, torch.randn(y.shape).to(y.dtype))]


def plain(module: Any) -> Any:
    return lambda x, **given: module.plain(x, module.weight, module.bias, **given)


def same(found: list[Any], exact: list[Any], tolerance: float = 2e-5) -> None:
    for one, other in zip(found, exact, strict=True):
        assert one.shape == other.shape
        assert (one - other).abs().max() <= tolerance * max(1.0, float(other.abs().max()))


@each_case
def test_gradients_have_pytorchs_values_and_layout(trained: Local, case: Any) -> None:
    module, x = case(trained)
    found = gradients(module, x)
    assert (module.used, module.used_backward) == ("tuned", BOTH)
    same(found, gradients(module, x, plain(module)))
    assert found[1].stride() == x.stride()


@each_case
def test_output_may_be_changed_in_place(trained: Local, case: Any) -> None:
    """In-place operations may follow the module as they may follow PyTorch's convolution, whose
    output is no view of another tensor."""
    module, x = case(trained)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    plainly = plain(module)
    exact = gradients(module, x, lambda x: plainly(x) * 2 + 1)
    for call in (module, compiled):
        same(gradients(module, x, lambda x, call=call: call(x).mul_(2).add_(1)), exact)
        assert module.used_backward == BOTH


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_right_with_any_activation_and_a_residual(
    trained: Local, activation: Any, with_residual: bool
) -> None:
    """Only the plain gradients are tuned: PyTorch computes the activation's derivative first."""
    for case in (images, last):
        module, x = case(trained, activation=activation)
        added = {"residual": torch.randn_like(x).requires_grad_()} if with_residual else {}
        found = gradients(module, x, **added)
        assert module.used_backward == BOTH
        same(found, gradients(module, x, plain(module), **added))


@each_case
def test_only_needed_gradients_are_computed(trained: Local, case: Any) -> None:
    module, x = case(trained)
    module.requires_grad_(False)
    module(x).sum().backward()
    assert module.used_backward == {"input": "tuned"}
    module.requires_grad_(True)
    module(x.detach()).sum().backward()
    assert module.used_backward == {"weight": "tuned"}
    if module.bias is not None:
        module.weight.requires_grad_(False)
        module.bias.grad = None
        module(x.detach()).sum().backward()
        grad, module.bias.grad = module.bias.grad, None
        plain(module)(x.detach()).sum().backward()
        assert torch.allclose(grad, module.bias.grad, rtol=1e-4)


def test_output_and_gradients_are_looked_up_separately(source: Local, trained: Local) -> None:
    module, x = images(trained)
    other = drawn(1, 3, 9, 20)
    same(gradients(module, other), gradients(module, other, plain(module)))
    assert module.used == "pytorch"
    module.source = source
    module.forget()
    same(gradients(module, x), gradients(module, x, plain(module)))
    assert module.used == "tuned"
    assert module.used_backward == {"input": "pytorch", "weight": "pytorch"}


@each_case
def test_gradients_repeat_bit_for_bit(trained: Local, case: Any) -> None:
    module, x = case(trained)
    first, second = gradients(module, x), gradients(module, x)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@each_case
def test_kernel_takes_a_non_contiguous_output_gradient(trained: Local, case: Any) -> None:
    """The gradient of a sum is one number expanded to all elements, so it is not contiguous."""
    module, x = case(trained)
    found, exact = (torch.autograd.grad(call(x).sum(), x)[0] for call in (module, plain(module)))
    assert module.used_backward["input"] == "tuned"
    assert torch.allclose(found, exact, atol=1e-4)


@each_case
def test_second_derivatives_are_right(trained: Local, case: Any) -> None:
    """Second derivatives are right: in float32, which is tuned, compared with PyTorch's; in
    float64, which PyTorch computes, compared with finite differences."""
    module, x = case(trained)

    def penalty(call: Any) -> list[Any]:
        y = call(x)
        (dx,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return list(torch.autograd.grad(dx.square().sum(), [x, *module.parameters()]))

    for activation in ACTIVATIONS:
        module.activation = activation
        module.forget()
        same(penalty(module), penalty(plain(module)), 1e-4)
    module.double()
    # The time of both checks grows with the square of the size: this has corners, borders, inside.
    part = x[..., :5] if x.ndim == 3 else x[..., :3, :4]
    small = part.detach().double().contiguous().requires_grad_()
    assert gradcheck(module, (small,))
    assert gradgradcheck(module, (small,))


@pytest.mark.parametrize(
    ("case", "backend"),
    [*((case, "aot_eager") for case in CASES.values()), (last, "inductor")],
    ids=[*CASES, "last-inductor"],
)
def test_a_compiled_graph_has_no_break(trained: Local, case: Any, backend: str) -> None:
    module, x = case(trained)
    compiled = torch.compile(module, backend=backend, fullgraph=True)
    same(gradients(module, x, compiled), gradients(module, x, plain(module)))
    assert (module.used, module.used_backward) == ("tuned", BOTH)


@each_case
def test_module_operators_pass_opcheck(trained: Local, case: Any) -> None:
    module, x = case(trained)
    given = [x, module.weight, module.bias]
    forward = (*given, None, *NO_NORM, module._number)
    torch.library.opcheck(torch.ops.convtune.module.default, forward)
    y = module(x).detach()
    output = None if module.activation == "silu" else y
    needed = [True, True, module.bias is not None, True]
    detached = [None if each is None else each.detach() for each in given]
    torch.library.opcheck(
        torch.ops.convtune.module_gradients.default,
        (torch.randn_like(y), *detached, None, output, needed, module._number),
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["images", "last", "causal"])
def test_operators_by_name_use_tuned_gradients(trained: Local, name: str, compiled: bool) -> None:
    module, x = CASES[name](trained)
    w, b = module.weight, module.bias
    tuner.torch.use(trained)
    operators = torch.ops.convtune

    def call(x: Any) -> Any:
        if name == "causal":
            return operators.conv1d(x, w, b, padding=[3, 0], groups=4, activation="silu")
        return operators.depthwise_conv2d(x, w, b, padding=1)

    try:
        run = torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call
        same(gradients(module, x, run), gradients(module, x, plain(module)))
        layers = [
            layer
            for operator in (tuner.torch.operators._CONV1D, tuner.torch.operators._DEPTHWISE)
            for layer in operator._layers.values()
        ]
        assert BOTH in [layer.used_backward for layer in layers if layer is not None]
    finally:
        tuner.torch.use(None)


def test_gradient_operator_by_name_passes_opcheck(trained: Local) -> None:
    module, x = last(trained)
    tuner.torch.use(trained)
    try:
        call = torch.ops.convtune.depthwise_conv2d_gradients.default
        given = (torch.randn_like(x), x.detach(), module.weight.detach(), module.bias.detach())
        terms = ([1, 1], [1, 1, 1, 1], [1, 1], 6, "none", None)
        torch.library.opcheck(call, (*given, None, None, [True, True, True, False], *terms))
    finally:
        tuner.torch.use(None)


@pytest.mark.parametrize("compiled", [False, True])
@each_case
def test_gradients_under_autocast_equal_pytorchs(trained: Local, case: Any, compiled: bool) -> None:
    module, x = case(trained)
    run = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
    with torch.autocast("cpu", torch.bfloat16):
        y, exact = run(x), plain(module)(x)
    assert y.dtype == exact.dtype == torch.bfloat16
    wanted = [x, *module.parameters()]
    found = torch.autograd.grad(y.float().square().mean(), wanted)
    expected = torch.autograd.grad(exact.float().square().mean(), wanted)
    assert all(each.dtype == torch.float32 for each in found)
    same(list(found), list(expected), 0.05)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.first = nn.Conv2d(6, 6, 1)
        self.conv = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.bn = nn.BatchNorm2d(6)
        self.act = nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.bn(self.conv(self.first(x))))


def test_model_optimised_for_training_trains_as_before(trained: Local) -> None:
    model, own = Block(), Block()
    x = drawn(2, 6, 7, 9, last=True, grad=False)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():  # mode="training" must enable gradients itself
        report = optimize_(model, x, source=trained, mode="training")
    first, *others = (row.shape.split() for row in report.rows)
    assert ["backward_input" in others[0], "backward_weight" in others[1]] == [True, True]
    assert not {"backward_input", "backward_weight"} & {*first}
    assert all(row.by == "tuned" for row in report.rows), str(report)
    assert not any(row.takes_in for row in report.rows)
    assert "3 of 3 outputs and gradients of layers" in str(report)
    assert "its gradients" in str(report)
    assert (report.error or 0) < 1e-5
    assert model.training
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())
    for each in (model, own):
        train(each, x, rate=0.01, steps=3)
    assert model.conv.used_backward == BOTH
    for (name, mine), theirs in zip(
        model.state_dict().items(), own.state_dict().values(), strict=True
    ):
        assert torch.allclose(mine, theirs, atol=1e-4), name
    restore_(model)
    assert type(model.conv) is nn.Conv2d
    assert model.training


def test_compiled_model_trains_under_autocast(trained: Local) -> None:
    model, x = Block(), drawn(2, 6, 7, 9, last=True, grad=False)
    optimize_(model, x, source=trained, mode="training")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        compiled(x).float().square().mean().backward()
    assert all(each.grad is not None for each in model.parameters())


def test_training_takes_in_an_activation_but_no_norm(trained: Local) -> None:
    layers = [nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.SiLU(), nn.BatchNorm2d(6)]
    model, x = nn.Sequential(nn.Conv2d(6, 6, 1), *layers), drawn(2, 6, 7, 9, last=True)
    own = copy.deepcopy(model)
    optimize_(model, x, source=trained, mode="training")
    assert model[1].activation == "silu"
    same(gradients(model, x), gradients(own, x), 1e-4)
    assert model[1].used_backward == BOTH


def test_capture_lists_the_workloads_of_training() -> None:
    model = nn.Sequential(
        nn.Conv2d(6, 6, 3, groups=6), nn.Conv2d(6, 6, 1), nn.Conv2d(6, 6, 3, groups=6), nn.SiLU()
    )
    x = torch.randn(1, 6, 12, 12)
    found = [(each.names, each.workload) for each in capture(model, x, mode="training")]
    told = [(names, work.direction, work.bias, work.activation) for names, work in found if work]
    assert told == [
        (["0"], "forward", True, "none"),
        (["0"], "backward_weight", True, "none"),  # the model's input needs no gradient
        (["2"], "forward", True, "silu"),
        (["2"], "forward", True, "none"),
        (["2"], "backward_input", False, "silu"),
        (["2"], "backward_weight", True, "silu"),
    ]
    assert len(capture(model, x)) == 2
    assert len(capture(model.requires_grad_(False), x, mode="training")) == 2
    with pytest.raises(tuner.errors.WrongArgument, match="'inference', 'training'"):
        capture(model, x, mode="faster")  # type: ignore[arg-type]


def test_captured_workloads_have_autocasts_dtype() -> None:
    model = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6), nn.Conv2d(6, 6, 3, groups=6))
    x = torch.randn(1, 6, 12, 12)
    with torch.autocast("cpu", torch.bfloat16):
        found = capture(model, x, mode="training")
        double = capture(model.double(), x.double())
    assert {each.workload and each.workload.dtype for each in found} == {"bfloat16"}
    assert [each.reason for each in double] == [
        "the input is torch.float64, and must be one of float32, float16, bfloat16"
    ]
    found = capture(model.float(), x, mode="training")
    assert {each.workload and each.workload.dtype for each in found} == {"float32"}


def test_workloads_are_captured_from_a_model_given_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU())\n"
    )
    monkeypatch.chdir(tmp_path)
    found = workloads_of("nets:build", 2, "bfloat16", "NHWC", (2, 9, 9), "training")
    told: list[Any] = [each.workload for each in found]
    assert [each.direction for each in told] == ["forward", "backward_input", "backward_weight"]
    assert {(each.B, each.layout, each.dtype, each.activation) for each in told} == {
        (2, "NHWC", "bfloat16", "relu")
    }


def test_on_missing_tune_tunes_missing_gradients(source: Local) -> None:
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 3, groups=2, bias=False))
    x = torch.randn(1, 2, 6, 5)
    report = optimize_(
        model, x, source=source, mode="training", on_missing="tune", budget_seconds=0.1
    )
    assert len(report.rows) == 3
    for row in report.rows:
        assert row.by == "tuned" or "was the fastest" in row.reason, str(report)
        assert row.time_us
