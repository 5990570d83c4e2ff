"""``torch.ops.convtune``: what the operators compute, whether a tuned kernel or PyTorch computes
it, and how PyTorch's graphs, transforms and autocast see them."""

import logging
import re
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local
from tuner.errors import WrongArgument

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import close  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

import tuner.torch  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.usefixtures("used"),
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
TOLD = "tuner.torch"


def signals(*shape: int, last: bool = False) -> Any:
    torch.manual_seed(4)
    x = torch.randn(*shape)
    if not last:
        return x
    return x.to(memory_format=torch.channels_last) if x.ndim == 4 else x.mT.contiguous().mT


CASES: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "images": ("depthwise_conv2d", (2, 3, 9, 20), (3, 1, 3, 3), {"padding": 1}),
    "last": ("depthwise_conv2d", [2, 6, 7, 9], (6, 1, 3, 3), {"padding": 1, "bias": True}),
    "sides": ("depthwise_conv2d", [2, 6, 9, 20], (6, 1, 3, 5), {"padding": [0, 2, 1, 2]}),
    "one image": ("depthwise_conv2d", (3, 9, 20), (3, 1, 3, 3), {"padding": (1, 1), "bias": True}),
    "untuned": ("depthwise_conv2d", (1, 2, 5, 5), (4, 1, 3, 3), {"stride": 2, "groups": 2}),
    "uneven": ("depthwise_conv2d", (1, 2, 8, 5), (2, 1, 3, 3), {"stride": (1, 2), "dilation": 2}),
    "rows": ("conv1d", (1, 1, 1001), (1, 1, 7), {"padding": 3}),
    "strided": ("conv1d", (2, 4, 61), (8, 1, 5),
                {"padding": 6, "stride": 2, "dilation": 3, "groups": 4}),
    "dense": ("conv1d", [2, 4, 61], (6, 4, 5), {"padding": (2, 2), "bias": True}),
    "causal": ("conv1d", (2, 4, 30), (4, 1, 4), {"padding": (6, 0), "dilation": 2, "groups": 4}),
    "grouped": ("conv1d", (2, 4, 30), (4, 2, 4), {"groups": 2}),
    "one signal": ("conv1d", (1001,), (1, 1, 7), {"padding": 3, "bias": True}),
}  # fmt: skip
"""For each case: the operator; the input's shape (a list if the channels are last); the weight's
shape; further arguments, among which ``bias`` asks for a random bias."""
TUNED = ("images", "last", "sides", "rows", "strided", "dense", "one signal")


def made(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the operator of a case, its input, weight and bias (or None), and other arguments."""
    operator, shape, weight, rest = CASES[name]
    rest = dict(rest)
    x, w = signals(*shape, last=isinstance(shape, list)), signals(*weight)
    b = signals(weight[0]) if rest.pop("bias", False) else None
    return getattr(torch.ops.convtune, operator), (x, w, b), rest


def reference(name: str) -> Any:
    """Return the case's output by torch.nn.functional."""
    operator = CASES[name][0]
    _, (x, w, b), named = made(name)
    pads = named.pop("padding", 0)
    pads = [pads] if isinstance(pads, int) else list(pads)
    if operator == "conv1d":
        before, behind = pads * (2 // len(pads))
        rows = functional.pad(x, (before, behind))
        if x.ndim == 1:
            return functional.conv1d(rows[None], w, b, **named)[0]
        return functional.conv1d(rows, w, b, **named)
    top, left, bottom, right = pads * (4 // len(pads))
    named.setdefault("groups", x.shape[-3])
    return functional.conv2d(functional.pad(x, (left, right, top, bottom)), w, b, **named)


@pytest.fixture
def tuned(caplog: pytest.LogCaptureFixture) -> Any:
    """Return a function that says whether a tuned kernel has computed since the test began. It
    reads the log, which says once for each layer what computes it."""
    caplog.set_level(logging.INFO, TOLD)
    return lambda: any("computed by tuned" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("name", CASES)
def test_operator_computes_what_pytorch_does(name: str, tuned: Any) -> None:
    call, given, named = made(name)
    y, expected = call(*given, **named), reference(name)
    assert y.is_contiguous() == given[0].is_contiguous()
    assert close(y, expected)
    assert tuned() == (name in TUNED)


@pytest.mark.parametrize("compiled", [False, True])
def test_conv1d_takes_a_single_signal_without_a_source(compiled: bool) -> None:
    tuner.torch.use(None)
    call, given, named = made("one signal")
    right = [each.clone().requires_grad_() for each in given]
    given = tuple(each.requires_grad_() for each in given)
    y = (torch.compile(call, backend="aot_eager") if compiled else call)(*given, **named)
    x, w, b = right
    expected = functional.conv1d(x[None], w, b, **named)[0]
    assert close(y, expected)
    draw = torch.randn(y.shape)
    found, exact = (torch.autograd.grad(a, of, draw) for a, of in ((y, given), (expected, right)))
    for one, other in zip(found, exact, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, atol=1e-4)
    two = torch.randn(2, 1, 7)
    with pytest.raises(WrongArgument, match=r"must have \(B, C, M\) or \(C, M\)"):
        call(given[0], two, None, **named)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["plain", "all", "trained"])
def test_operator_passes_opcheck(name: str, form: str) -> None:
    """``torch.library.opcheck`` finds no fault in schema, fake tensors or autograd registration."""
    call, (x, w, b), named = made(name)
    if form != "plain":
        b = signals(len(w))
        named |= {"residual": torch.randn_like(reference(name)), "activation": "silu"}
    if form == "trained":
        x, w, b = (each.detach().requires_grad_() for each in (x, w, b))
    torch.library.opcheck(call.default, (x, w, b), named)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_graph_has_no_break(backend: str, tuned: Any) -> None:
    call, (x, w, b), named = made("last")

    def twice(x: Any) -> Any:
        return call(x * 2, w, b, **named, activation="relu") + 1

    y = torch.compile(twice, backend=backend, fullgraph=True)(x)
    assert close(y, twice(x))
    assert not y.is_contiguous()
    assert tuned()


def test_shapes_may_change_in_a_compiled_graph() -> None:
    call, (x, w, b), _ = made("images")
    for sides in (1, [1, 1]):  # the compiler may take the numbers of a list for symbols, too

        def run(x: Any, sides: Any = sides) -> Any:
            return call(x, w, b, padding=1 if sides == 1 else sides)

        compiled = torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=True)
        for given in (x, signals(5, 3, 8, 8), x):
            assert close(compiled(given), run(given))


@pytest.mark.parametrize("name", ["images", "rows"])
@pytest.mark.parametrize("compiled", [False, True])
def test_pytorch_computes_untuned_gradients(name: str, compiled: bool, tuned: Any) -> None:
    call, (x, w, b), named = made(name)

    def loss(w: Any) -> Any:
        return call(x, w, b, **named, activation="silu").square().sum()

    trained = w.clone().requires_grad_()
    run = torch.compile(loss, backend="aot_eager", fullgraph=True) if compiled else loss
    run(trained).backward()
    w.requires_grad_()
    functional.silu(_same_padded(name, x, w)).square().sum().backward()
    assert torch.allclose(trained.grad, w.grad, rtol=1e-4, atol=1e-3)
    assert tuned()


def _same_padded(name: str, x: Any, w: Any) -> Any:
    if name == "rows":
        return functional.conv1d(x, w, padding=3)
    return functional.conv2d(x, w, padding=1, groups=3)


@pytest.mark.parametrize("name", ["images", "last", "sides", "strided"])
@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_operator_takes_the_shortcut_for_a_repeated_call(
    name: str, without: Any, asked: list[bool]
) -> None:
    call, (x, w, b), named = made(name)
    doubled, weights = 2 * x, 3 * w
    with without():
        call(doubled, w, b, **named)
        call(x, weights, b, **named)
        y = call(x, w, b, **named)
    assert asked == [True, True]
    assert close(y, reference(name))
    assert y.is_contiguous() == x.is_contiguous()


OTHERS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "another layout": lambda x, w, b: (x.contiguous(), w, b),
    "another dtype": lambda x, w, b: (x.double(), w.double(), b.double()),
    "another shape": lambda x, w, b: (x[:1], w, b),
    "a negated view": lambda x, w, b: (torch._neg_view(x), w, b),
    "a subclass": lambda x, w, b: (x.as_subclass(torch.nn.Buffer), w, b),
    "a weight that lies otherwise": lambda x, w, b: (x, w.mT.contiguous().mT, b),
    "no bias": lambda x, w, b: (x, w, None),
    "another activation": lambda x, w, b: (x, w, b, {"activation": "relu"}),
    "another stride": lambda x, w, b: (x, w, b, {"stride": 2}),
    "a residual": lambda x, w, b: (x, w, b, {"residual": torch.ones_like(x)}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_operator_takes_no_shortcut_for_a_different_call(other: str, asked: list[bool]) -> None:
    call, (x, w, b), named = made("last")
    with torch.no_grad():
        call(x, w, b, **named)
        x, w, b, *rest = OTHERS[other](x, w, b)
        more: dict[str, Any] = rest[0] if rest else {}
        y = call(x, w, b, **named, **more)
        stride = more.get("stride", 1)
        expected = functional.conv2d(x, w, b, padding=1, groups=6, stride=stride)
        if "residual" in more:
            expected = expected + more["residual"]
        assert close(y, expected.relu() if "activation" in more else expected)
        assert True not in asked
        tuner.torch.use(None)
        call(x, w, b, **named)
    assert True not in asked


@pytest.mark.parametrize("known", [False, True])
def test_operator_works_under_transforms_tracing_and_export(known: bool) -> None:
    call, (x, w, b), named = made("images")
    if known:
        with torch.no_grad():
            call(x, w, b, **named)

    def run(x: Any) -> Any:
        return call(x, w, b, **named)

    several = torch.randn(3, *x.shape)
    with torch.no_grad():
        assert close(torch.func.vmap(run)(several), torch.stack([run(each) for each in several]))
        assert "convtune.depthwise_conv2d" in make_fx(run)(x).code
        dual = torch.func.jvp(run, (x,), (several[0],))[1]
        assert close(dual, run(several[0]))
    assert close(torch.func.vmap(run)(several), torch.stack([run(each) for each in several]))
    tangent = torch.func.jvp(run, (x,), (several[0],))[1]
    assert close(tangent, run(several[0]))  # the convolution is linear in x
    graph = torch.func.grad(lambda x: run(x).square().sum())(x)
    y = x.clone().requires_grad_()
    run(y).square().sum().backward()
    assert torch.allclose(graph, y.grad, atol=1e-4)
    for pre_dispatch in (False, True):
        made_graph = make_fx(run, pre_dispatch=pre_dispatch)(x)
        assert "convtune.depthwise_conv2d" in made_graph.code
        assert close(made_graph(several[0]), run(several[0]))

    class Own(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return run(x)

    exported = torch.export.export(Own(), (x,))
    assert "convtune.depthwise_conv2d" in str(exported.graph)
    assert close(exported.module()(several[0]), run(several[0]))


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_chooses_the_operators_dtype(compiled: bool) -> None:
    call, (x, w, b), named = made("images")

    def run(x: Any) -> Any:
        return call(x, w, b, **named)

    given = torch.compile(run, backend="aot_eager", fullgraph=True) if compiled else run
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, expected = given(x), functional.conv2d(x, w, b, padding=1, groups=3)
    assert y.dtype == expected.dtype == torch.bfloat16
    assert torch.allclose(y, expected, atol=0.1)


def test_operator_looks_up_a_shape_once_for_each_source(
    source: Local, monkeypatch: pytest.MonkeyPatch, tuned: Any
) -> None:
    asked = []
    best = Local.best

    def counted(self: Local, *arguments: Any, **named: Any) -> Any:
        asked.append(arguments)
        return best(self, *arguments, **named)

    monkeypatch.setattr(Local, "best", counted)
    call, (x, w, b), named = made("images")
    for weight in (w, w, torch.nn.Parameter(2 * w, requires_grad=False)):
        y = call(x, weight, b, **named)
    assert close(y, 2 * reference("images"))
    assert len(asked) == 1
    tuner.torch.use(source)
    call(x, w, b, **named)
    assert len(asked) == 2
    tuner.torch.use(None)
    assert torch.equal(call(x, w, b, **named), reference("images"))
    assert len(asked) == 2


def test_operator_keeps_no_weights() -> None:
    call, (x, w, b), named = made("images")
    gone = weakref.ref(w)
    call(x, w, b, **named)
    del w
    assert gone() is None


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("name", ["images", "rows"])
def test_stride_padding_and_dilation_may_change_in_a_graph(
    name: str, needs_grad: bool, tuned: Any
) -> None:
    call, (x, w, _), tuned_with = made(name)
    plainly = functional.conv1d if name == "rows" else functional.conv2d
    given, groups = (x.requires_grad_(needs_grad), w), x.shape[1]
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda x, w, *steps: call(x, w, None, *steps, groups), backend=graphs, fullgraph=True
    )
    for steps in ((1, tuned_with["padding"], 1), (2, 4, 3), (3, 5, 2), (1, 4, 2), (4, 6, 5)):
        y, expected = compiled(*given, *steps), plainly(*given, None, *steps, groups)
        assert close(y, expected)
        if needs_grad:
            assert close(*(torch.autograd.grad(each.sum(), x)[0] for each in (y, expected)))
    assert tuned()
    assert graphs.frame_count <= 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stride": 0}, r"stride is \[0, 0\], and must be 1 or 2 whole numbers of 1 or more"),
        ({"padding": [1, 2, 3]}, r"padding is \[1, 2, 3\], and must be 1 or 2 or 4 whole"),
        ({"padding": -1}, "whole numbers of 0 or more"),
        ({"dilation": [1, 1, 1]}, "dilation is"),
        ({"activation": "tanh"}, "activation is 'tanh', and must be one of none, relu"),
        ({"weight": (3, 3, 3, 3)}, r"must have \(C \* multiplier, 1, KH, KW\); for other groups"),
        ({"residual": (1, 3, 9, 20)}, r"and must have the output's, \(2, 3, 9, 20\); expand it"),
    ],
)
@pytest.mark.parametrize("with_source", [False, True])
def test_operator_refuses_wrong_arguments(
    given: dict[str, Any], says: str, with_source: bool, source: Local
) -> None:
    tuner.torch.use(source if with_source else None)
    call, (x, w, b), named = made("images")
    named |= {"weight": w, "bias": b, **given}
    for name in ("weight", "residual"):
        if name in given:
            named[name] = signals(*given[name])
    with pytest.raises(WrongArgument, match=says):
        call(x, **named)


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("with_source", [False, True])
@pytest.mark.parametrize("name", ["untuned", "rows"])
@pytest.mark.parametrize("more", [{0: 2}, {-1: 7}])
def test_operator_refuses_a_residual_larger_than_the_output(
    name: str, more: dict[int, int], with_source: bool, needs_grad: bool, source: Local
) -> None:
    tuner.torch.use(source if with_source else None)
    call, (x, w, b), named = made(name)
    output = reference(name).shape
    shape = list(output)
    for axis, size in more.items():
        shape[axis] = size
    says = re.escape(f"residual has shape {tuple(shape)}, and must have the output's, ")
    with pytest.raises(WrongArgument, match=f"{says}{re.escape(str(tuple(output)))}"):
        call(x, w.requires_grad_(needs_grad), b, residual=signals(*shape), **named)


@pytest.mark.parametrize(
    "given", [signals(1), signals(8), signals(3).double()], ids=["short", "long", "float64"]
)
@pytest.mark.parametrize("name", ["images", "one image"])
def test_operator_refuses_a_bias_that_does_not_fit(name: str, given: Any) -> None:
    call, (x, w, _), named = made(name)
    with pytest.raises(RuntimeError, match="bias"):
        call(x, w, given, **named)


def test_use_refuses_an_object_that_is_no_source() -> None:
    with pytest.raises(WrongArgument, match="source is a str, and must be a"):
        tuner.torch.use("http://here")  # type: ignore[arg-type]
