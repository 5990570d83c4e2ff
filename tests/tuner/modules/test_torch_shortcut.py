"""The shortcut of a module's calls: calls equal to one that a kernel has computed take it, and
those that only look like it go the whole way."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.tuner.small_libraries import workload
from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, scramble  # noqa: E402
from torch.func import functional_call  # noqa: E402

from tuner.torch import module_operator, optimize_  # noqa: E402
from tuner.torch.lookup import bounded  # noqa: E402
from tuner.torch.modules import DepthwiseConv2d  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def module(source: Local, x: Any) -> Any:
    """Return a tuned module that has been called once, so that it has a shortcut."""
    torch.manual_seed(4)
    weight = torch.nn.Parameter(torch.randn(6, 1, 3, 3))
    made = DepthwiseConv2d(weight, torch.nn.Parameter(torch.randn(6)), source=source)
    with torch.no_grad():
        made(x)
    assert made._shortcuts[False]
    return made


def plain(module: Any, x: Any) -> Any:
    return torch.nn.functional.conv2d(x, module.weight, module.bias, padding=1, groups=6)


def test_shortcut_gives_the_same_output_as_the_whole_way(
    module: Any, x: Any, asked: list[bool]
) -> None:
    """A call that takes the shortcut gives the values and strides of a call that does not."""
    other = torch.randn_like(x)
    with torch.no_grad():
        y = module(other)
        assert torch.allclose(y, plain(module, other), atol=1e-5)
        assert y.stride() == plain(module, other).stride()
        module.weight.mul_(2)
        assert torch.allclose(module(other), plain(module, other), atol=1e-5)
    with torch.inference_mode():
        assert torch.allclose(module(other), plain(module, other), atol=1e-5)
        module(other)
    assert asked == [True, True, False, True]
    assert (module.used, module.reason) == ("tuned", "tiled")


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "another shape": lambda module, x: x[:1],
    "another layout": lambda module, x: x.contiguous(),
    "another dtype": lambda module, x: (module.double(), x.double())[1],
    "a negated view": lambda module, x: torch._neg_view(x),
    "a subclass": lambda module, x: x.as_subclass(torch.nn.Buffer),
    "no bias": lambda module, x: (setattr(module, "bias", None), x)[1],
}


@pytest.mark.parametrize("change", CHANGES)
def test_different_call_takes_no_shortcut(
    module: Any, x: Any, asked: list[bool], change: str
) -> None:
    other = CHANGES[change](module, x)
    with torch.no_grad():
        y = module(other)
        assert torch.allclose(y, plain(module, other), atol=1e-5)
    assert not any(asked)


def test_call_that_needs_gradients_takes_no_shortcut(
    module: Any, x: Any, asked: list[bool]
) -> None:
    """A call that needs gradients takes no shortcut. Within it the kernel is called on tensors that
    need none. This inner call differs from the calls before, so it takes no shortcut either."""
    y = module(x)
    assert y.requires_grad
    assert module.used == "tuned"
    assert not any(asked)
    with torch.no_grad():
        module(x)
        module(x)
    assert asked[-1]
    assert (module.used, module.reason) == ("tuned", "tiled")


@pytest.mark.filterwarnings("ignore:::torch")  # PyTorch warns of its own deprecated functions
def test_call_under_tracing_transforms_or_autocast_takes_no_shortcut(
    module: Any, x: Any, asked: list[bool]
) -> None:
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        exact = plain(module, x)
        assert torch.allclose(
            make_fx(module)(x)(2 * x) - module.bias[:, None, None],
            2 * (exact - module.bias[:, None, None]),
            atol=1e-4,
        )
        mapped = torch.func.vmap(module)(torch.stack([x, 2 * x]))
        assert torch.allclose(mapped[0], exact, atol=1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            assert module(x).dtype == torch.bfloat16
    with torch.no_grad(), forward_ad.dual_level():
        forward_ad.unpack_dual(module(forward_ad.make_dual(x, x)))
    assert not any(asked)


def test_alternating_shapes_both_take_the_shortcut(
    module: Any, source: Local, x: Any, asked: list[bool]
) -> None:
    smaller = x[:1]
    shape = workload("biased").model_dump() | {"B": 1}
    source.tune("depthwise_conv2d", shape, target="cpu", trials=1, baselines="none")
    with torch.no_grad():
        module(smaller)
        asked.clear()
        for each in (x, smaller, x, smaller):
            assert torch.allclose(module(each), plain(module, each), atol=1e-5)
    assert asked == [True] * 4


def test_number_of_kept_shapes_is_limited(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST", 4)
    with torch.no_grad():
        for height in range(1, 12):
            y = torch.randn(1, 6, height, 5).to(memory_format=torch.channels_last)
            assert torch.allclose(module(y), plain(module, y), atol=1e-5)
    assert len(module._found) <= 4
    assert len(module.reason_log._reasons) <= 4


def test_copy_and_forget_leave_no_shortcut(module: Any, x: Any) -> None:
    assert deepcopy(module)._shortcuts == ({}, {})
    module.forget()
    assert module._shortcuts == ({}, {})


def test_compiled_graph_takes_a_shortcut_of_its_own(module: Any, x: Any, asked: list[bool]) -> None:
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for _ in range(3):  # the first call compiles, so it takes no shortcut
            y = compiled(x)
        assert torch.allclose(y, plain(module, x), atol=1e-5)
        module(x)
    assert asked[-2:] == [True, True]


def test_compiled_graph_takes_the_shortcut_before_pytorch_dispatches(
    module: Any, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            for _ in range(3):
                compiled(x)
            with torch.profiler.profile() as seen:
                compiled(x)
            assert module_operator.NAME in {each.name for each in seen.events()}
            # Without _module, the operator that PyTorch dispatches to would fail.
            with monkeypatch.context() as patched:
                patched.delattr(module_operator, "_module")
                assert torch.allclose(compiled(x), plain(module, x), atol=1e-5)


@pytest.fixture
def pair(source: Local, x: Any) -> tuple[Any, Any]:
    """Return a block with a batch norm as PyTorch computes it, and an optimised copy."""
    plain = Block(lambda block, y: block.bn(y)).eval()
    tuned = deepcopy(plain)
    optimize_(tuned, x, source=source)
    with torch.no_grad():
        tuned(x)
    return plain, tuned


def test_layer_with_a_norm_takes_the_shortcut(pair: Any, x: Any, asked: list[bool]) -> None:
    plain, tuned = pair
    with torch.no_grad():
        for change in (lambda model: None, scramble, lambda model: model.bn.bias.add_(1.0)):
            for model in pair:
                change(model)
            assert close(tuned(x), plain(x))
    with torch.inference_mode():
        for model in pair:
            model.conv.weight.mul_(2.0)
        tuned(x)
        assert close(tuned(x), plain(x))
    assert asked == [True, True, True, False, True]
    assert tuned.conv.used == "tuned"


NORM_CHANGES: dict[str, Callable[[Any], Any]] = {
    "training": lambda model: model.bn.train(),
    "without statistics": lambda model: (
        setattr(model.bn, "running_mean", None),
        setattr(model.bn, "running_var", None),
    ),
    "another dtype": lambda model: model.double(),
    "a view": lambda model: setattr(model.bn, "running_mean", torch._neg_view(torch.ones(6))),
}


@pytest.mark.parametrize("change", NORM_CHANGES)
def test_layer_with_a_changed_norm_takes_no_shortcut(
    pair: Any, x: Any, asked: list[bool], change: str
) -> None:
    for model in pair:
        NORM_CHANGES[change](model)
    plain, tuned = pair
    with torch.no_grad():
        given = x.to(plain.conv.weight.dtype)
        assert close(tuned(given), plain(given))
    assert not any(asked)


@pytest.mark.filterwarnings("ignore:::torch")
def test_graph_with_a_norm_takes_the_shortcut(pair: Any, x: Any, asked: list[bool]) -> None:
    """Calls of a graph with other values of the norm are not recognised."""
    plain, tuned = pair
    values = {name: each + 0.25 for name, each in plain.state_dict().items()}
    with torch.no_grad():
        compiled = torch.compile(tuned, fullgraph=True, backend="aot_eager")
        for _ in range(4):  # the first call compiles
            assert close(compiled(x), plain(x))
        assert asked[-2:] == [True, True]
        asked.clear()
        called = torch.compile(
            lambda given, x: functional_call(tuned, given, (x,)), backend="aot_eager"
        )
        for _ in range(3):
            assert close(called(values, x), functional_call(plain, values, (x,)))
        assert not any(asked)
        assert close(compiled(x), plain(x))
    torch.compiler.reset()
