"""The modules under tracing, export, compilation, autocast, functional transforms, copying, and
saving to files."""

import copy
import gc
import io
from collections.abc import Iterator
from typing import Any

import pytest

from tuner.client.local import Local
from tuner.errors import WrongArgument

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

from tuner.torch import optimize_  # noqa: E402
from tuner.torch.module_operator import NO_NORM  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


@pytest.fixture(params=["conv1d", "depthwise"])
def case(request: pytest.FixtureRequest, source: Local) -> tuple[Any, Any, Any]:
    """Return a PyTorch module, its replacement, and an input for which a library is tuned."""
    if request.param == "conv1d":
        plain = torch.nn.Conv1d(1, 1, 7, padding=3)
        module, x = Conv1d.of(plain, source=source), torch.randn(1, 1, 1001)
    else:
        plain = torch.nn.Conv2d(3, 3, 3, padding=1, groups=3)
        module, x = DepthwiseConv2d.of(plain, source=source), torch.randn(2, 3, 9, 20)
    for parameter in plain.parameters():
        parameter.requires_grad_(False)
    module(x)
    assert module.used == "tuned"
    return plain, module, x


def same(y: Any, reference: Any) -> None:
    torch.testing.assert_close(y, reference, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_make_fx_records_pytorchs_convolution(case: Any, pre_dispatch: bool) -> None:
    plain, module, x = case
    graph = make_fx(module, pre_dispatch=pre_dispatch)(x)
    assert "conv" in graph.code
    other = torch.randn(x.shape)
    same(graph(other), plain(other))
    module(x)
    assert module.used == "tuned"


def test_jit_traced_module_equals_pytorchs(case: Any) -> None:
    plain, module, x = case
    other = torch.randn(x.shape)
    same(torch.jit.trace(module, (x,))(other), plain(other))


def test_symbolic_trace_has_the_module_as_one_node(case: Any) -> None:
    plain, module, x = case
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(module))
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "output"]
    with torch.no_grad():
        same(traced(x), plain(x))
        assert module.used == "tuned"
        other = torch.randn(x.shape)
        same(copy.deepcopy(traced)(other), plain(other))
    with pytest.raises(WrongArgument, match="trace the model that calls it"):
        torch.fx.symbolic_trace(module)


@pytest.mark.parametrize("strict", [False, True])
def test_exported_module_equals_pytorchs(case: Any, strict: bool) -> None:
    plain, module, x = case
    exported = torch.export.export(module, (x,), strict=strict)
    other = torch.randn(x.shape)
    same(exported.module()(other), plain(other))


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """Reset the compiler after the test: PyTorch limits how many shapes it compiles a function
    for in one process."""
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_graph_calls_the_tuned_kernel(
    case: Any, backend: str, compiled_anew: None
) -> None:
    plain, module, x = case
    compiled = torch.compile(lambda x: module(x) + 1, backend=backend, fullgraph=True)
    for seed in range(2):
        given = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
        module.used = None
        same(compiled(given), plain(given) + 1)
        assert module.used == "tuned"


@pytest.mark.parametrize("operator", ["conv1d", "depthwise"])
def test_a_compiled_graph_keeps_channels_last(
    operator: str, source: Local, compiled_anew: None
) -> None:
    """The compiler generates the code behind the operator for the strides of its fake output, so
    the real output must have the same strides."""
    if operator == "conv1d":
        plain = torch.nn.Conv1d(4, 6, 5, padding="same")
        module, x = Conv1d.of(plain, source=source), torch.randn(2, 61, 4).mT
    else:
        plain = torch.nn.Conv2d(6, 6, 3, padding=1, groups=6)
        module = DepthwiseConv2d.of(plain, source=source)
        x = torch.randn(2, 6, 7, 9).to(memory_format=torch.channels_last)
    plain.requires_grad_(False)
    compiled = torch.compile(lambda x: module(x) * 2, backend="inductor", fullgraph=True)
    y = compiled(x)
    same(y, plain(x) * 2)
    assert module.used == "tuned", module.reason
    assert not y.is_contiguous()


def test_shapes_may_change_in_a_compiled_graph(case: Any, compiled_anew: None) -> None:
    plain, module, x = case
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=True)
    for given in (x, torch.randn(3, *x.shape[1:]), x):
        same(compiled(given), plain(given))
        assert module.used == ("tuned" if given is x else "pytorch")


def test_pytorch_computes_gradients_of_a_compiled_graph(case: Any, compiled_anew: None) -> None:
    plain, module, x = case
    module.weight.requires_grad_()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    compiled(x).square().sum().backward()
    grad, module.weight.grad = module.weight.grad, None
    plain(x).square().sum().backward()
    same(grad, plain.weight.grad)
    with torch.no_grad():
        same(compiled(x), plain(x))
        assert module.used == "tuned"


def test_compiled_graph_under_autocast_gives_its_dtype(case: Any, compiled_anew: None) -> None:
    _, module, x = case
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16


def test_module_operator_passes_opcheck(case: Any) -> None:
    _, module, x = case
    given = (x, module.weight, module.bias, None, *NO_NORM, module._number)
    torch.library.opcheck(torch.ops.convtune.module.default, given)
    trained = (x, *(each.detach().requires_grad_() for each in given[1:3]), *given[3:])
    torch.library.opcheck(torch.ops.convtune.module.default, trained)


@pytest.mark.parametrize("is_parametrised", [False, True])
def test_graph_of_a_copied_module_calls_the_copy(
    case: Any, is_parametrised: bool, compiled_anew: None
) -> None:
    plain, module, x = case
    if is_parametrised:
        parametrizations.weight_norm(module)
    copied = copy.deepcopy(module)
    assert copied.source is module.source
    module.used = copied.used = None
    compiled = torch.compile(copied, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        same(compiled(x), plain(x))
    assert (module.used, copied.used) == (None, "tuned")


def test_operator_says_that_its_module_is_gone(case: Any) -> None:
    _, module, x = case
    gone = copy.deepcopy(module)
    number = gone._number
    del gone
    gc.collect()
    with pytest.raises(WrongArgument, match="which is gone"):
        torch.ops.convtune.module(x, module.weight, module.bias, None, *NO_NORM, number)


def test_compiled_jvp_and_vmap_equal_pytorchs(case: Any, compiled_anew: None) -> None:
    plain, module, x = case
    tangent = torch.randn(x.shape)

    def derived(call: Any) -> Any:
        return torch.func.jvp(call, (x,), (tangent,))[1]

    same(torch.compile(derived, backend="aot_eager")(module), derived(plain))
    several = torch.randn(3, *x.shape)
    compiled = torch.compile(torch.func.vmap(module), backend="aot_eager")
    same(compiled(several), torch.stack([plain(each) for each in several]))


def test_forward_mode_tangents_equal_pytorchs(case: Any) -> None:
    plain, module, x = case
    tangent = torch.randn(x.shape)
    with forward_ad.dual_level():
        y = forward_ad.unpack_dual(module(forward_ad.make_dual(x, tangent)))
        reference = forward_ad.unpack_dual(plain(forward_ad.make_dual(x, tangent)))
        same(y.tangent, reference.tangent)
        same(y.primal, reference.primal)
        module(x)
        assert module.used == "tuned"


def test_functional_transforms_equal_pytorchs(case: Any) -> None:
    plain, module, x = case
    several = torch.randn(3, *x.shape)
    same(torch.func.vmap(module)(several), torch.stack([plain(each) for each in several]))
    for transform in (
        lambda call: torch.func.jvp(call, (x,), (several[0],))[1],
        lambda call: torch.func.grad(lambda x: call(x).square().sum())(x),
    ):
        same(transform(module), transform(plain))
    weights = torch.randn(3, *module.weight.shape)

    def called(given: Any) -> Any:
        return lambda weight: torch.func.functional_call(given, {"weight": weight}, (x,))

    same(torch.func.vmap(called(module))(weights), torch.func.vmap(called(plain))(weights))
    same(called(module)(weights[0]), called(plain)(weights[0]))
    assert module.used == "tuned"


@pytest.mark.parametrize("last", [False, True])
def test_pytorch_computes_batched_gradients(trained: Local, last: bool) -> None:
    """torch.autograd.functional.jacobian(…, vectorize=True) and torch.vmap ask for several
    gradients in one call; PyTorch computes those."""
    shape = (2, 6, 7, 9) if last else (2, 3, 9, 20)
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(shape).to(memory_format=layout).requires_grad_()
    plain = torch.nn.Conv2d(shape[1], shape[1], 3, padding=1, groups=shape[1], bias=last)
    module = DepthwiseConv2d.of(plain, source=trained)
    rows = torch.eye(2)

    def by_grad(y: Any, wanted: list[Any]) -> Any:
        return torch.autograd.grad(y, wanted, rows, is_grads_batched=True)

    def by_vmap(y: Any, wanted: list[Any]) -> Any:
        return torch.vmap(lambda row: torch.autograd.grad(y, wanted, row))(rows)

    for several in (by_grad, by_vmap):
        found, right = (
            several(each(x).flatten(1).mean(1), [x, *plain.parameters()])
            for each in (module, plain)
        )
        for one, other in zip(found, right, strict=True):
            same(one, other)
        assert (module.used, module.used_backward["input"]) == ("tuned", "pytorch")
    module(x).sum().backward()
    assert module.used_backward == {"input": "tuned", "weight": "tuned"}


@pytest.mark.parametrize("by_name", [False, True])
def test_batched_gradients_of_a_compiled_call_equal_pytorchs(
    trained: Local, by_name: bool, compiled_anew: None
) -> None:
    plain = torch.nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False)
    module, x = DepthwiseConv2d.of(plain, source=trained), torch.randn(2, 3, 9, 20)

    def called(x: Any) -> Any:
        return torch.ops.convtune.depthwise_conv2d(x, plain.weight, padding=1)

    x.requires_grad_()
    compiled = torch.compile(called if by_name else module, backend="aot_eager")
    found, right = (
        torch.autograd.grad(
            call(x).flatten(1).mean(1), [x, plain.weight], torch.eye(2), is_grads_batched=True
        )
        for call in (compiled, plain)
    )
    for one, other in zip(found, right, strict=True):
        same(one, other)


@pytest.mark.parametrize("by_name", [False, True])
def test_compiled_gradients_of_complex_signals_equal_pytorchs(
    source: Local, by_name: bool, compiled_anew: None
) -> None:
    plain = torch.nn.Conv1d(4, 4, 3, groups=4, dtype=torch.complex64)
    module, x = Conv1d.of(plain, source=source), torch.randn(2, 4, 9, dtype=torch.complex64)

    def called(x: Any) -> Any:
        return torch.ops.convtune.conv1d(x, plain.weight, plain.bias, groups=4)

    compiled = torch.compile(called if by_name else module, backend="aot_eager")
    found, right = (
        torch.autograd.grad(call(x).abs().square().sum(), [*plain.parameters()])
        for call in (compiled, plain)
    )
    for one, other in zip(found, right, strict=True):
        same(one, other)


class Logged(torch.Tensor):  # type: ignore[misc]
    """A subclass of tensors, which might override any operation."""


def test_pytorch_computes_a_tensor_subclass(case: Any) -> None:
    plain, module, x = case
    y = module(x.as_subclass(Logged))
    assert (type(y), module.used) == (Logged, "pytorch")
    same(y.as_subclass(torch.Tensor), plain(x))


def test_saved_module_does_not_contain_its_source(case: Any, source: Local) -> None:
    plain, module, x = case
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    same(read(x), plain(x))
    assert (read.used, read.source) == ("pytorch", None)
    assert "set its source" in read.reason
    read.source = source
    same(read(x), plain(x))
    assert read.used == "tuned"
    assert module.source is source
    assert str(source.where).encode() not in file.getvalue()


def test_only_the_state_of_a_parametrised_module_can_be_saved(case: Any) -> None:
    _, module, _ = case
    parametrizations.weight_norm(module)
    # PyTorch itself refuses to save a parametrised module.
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        torch.save(module, io.BytesIO())
    assert "parametrizations.weight.original0" in module.state_dict()


@pytest.mark.parametrize("parametrized", [False, True])
def test_copied_module_computes_with_its_own_parameters(
    case: Any, source: Local, parametrized: bool
) -> None:
    _, module, x = case
    if parametrized:
        parametrizations.weight_norm(module)
    with torch.no_grad():
        y = module(x)
        other = copy.deepcopy(module)
        assert torch.equal(other(x), y)
        assert (other.used, other.source) == ("tuned", source)
        for parameter in module.parameters():
            parameter.zero_()
        assert torch.equal(other(x), y)


def test_of_refuses_a_module_that_is_no_convolution(source: Local) -> None:
    with pytest.raises(WrongArgument):
        DepthwiseConv2d.of(torch.nn.Identity(), source=source)


@pytest.mark.parametrize("own", [True, False], ids=["compile()", "torch.compile"])
def test_already_compiled_model_can_be_optimised(
    source: Local, x: Any, compiled_anew: None, own: bool
) -> None:
    model: Any = Block(usual).eval()
    model.conv.bias = torch.nn.Parameter(torch.randn(6))
    plain, layer = outputs(model, x), model
    if own:
        model.compile(backend="aot_eager")
    else:
        model = torch.compile(model, backend="aot_eager")
    assert close(outputs(model, x), plain)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == ["BatchNorm2d", "ReLU6"]
    layer.conv.used = None
    assert close(outputs(model, x), plain)
    assert layer.conv.used == "tuned"
