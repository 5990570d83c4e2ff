"""The shortcut of compiled training steps: steps equal to an earlier step take it, and steps that
only look like one do not."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import tuner.torch  # noqa: E402
from tuner.torch.gradients.call import PerTensor, Saved, compute_gradients  # noqa: E402
from tuner.torch.gradients.shortcut import GradientShortcut  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402
from tuner.torch.shortcut import Shortcut  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.fixture
def module(trained: Local) -> Any:
    torch.manual_seed(6)
    weight = torch.nn.Parameter(torch.randn(6, 1, 3, 3))
    return DepthwiseConv2d(weight, torch.nn.Parameter(torch.randn(6)), source=trained)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[bool]]:
    """Return two lists, of outputs and gradients, that record for each call of a shortcut from now
    on whether it recognised the call."""
    said: dict[str, list[bool]] = {"output": [], "gradients": []}
    for name, kind in (("output", Shortcut), ("gradients", GradientShortcut)):
        call: Any = kind.__call__

        def told(shortcut: Any, *given: Any, name: str = name, call: Any = call) -> Any:
            found = call(shortcut, *given)
            said[name].append(found is not None)
            return found

        monkeypatch.setattr(kind, "__call__", told)
    return said


def drawn(*shape: int, grad: bool = True) -> Any:
    x = torch.randn(*shape).to(memory_format=torch.channels_last)
    return x.requires_grad_(grad)


def compiled(module: Any) -> Any:
    return torch.compile(module, backend="aot_eager", fullgraph=True)


def check(module: Any, call: Any, x: Any, g: Any) -> None:
    """Assert that the output and all needed gradients equal PyTorch's, and that the output and the
    input's gradient have PyTorch's strides."""
    needed = [each for each in (x, *module.parameters()) if each.requires_grad]
    y, exact = call(x), module.plain(x, module.weight, module.bias)
    found, right = (torch.autograd.grad(each, needed, g) for each in (y, exact))
    for one, other in zip((y, *found), (exact, *right), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
        assert one.shape != x.shape or one.stride() == other.stride()


def test_shortcut_recognises_the_steps_of_a_training_loop(
    module: Any, asked: dict[str, list[bool]]
) -> None:
    call = compiled(module)
    for _ in range(4):
        check(module, call, drawn(2, 6, 7, 9), drawn(2, 6, 7, 9, grad=False))
        with torch.no_grad():
            module.weight.mul_(2)
    assert asked["output"][-2:] == asked["gradients"][-2:] == [True, True]
    assert module.used == "tuned"
    assert module.used_backward == {"input": "tuned", "weight": "tuned"}


@pytest.mark.parametrize("named", [False, True])
def test_shortcut_recognises_calls_of_the_backward_kernel(
    at_once: Local, asked: dict[str, list[bool]], named: bool
) -> None:
    torch.manual_seed(6)
    weight, bias = (torch.nn.Parameter(torch.randn(*shape)) for shape in ((4, 1, 4), (4,)))
    how: Any = {"mode": "causal", "kind": "correlate", "groups": 4, "activation": "silu"}
    module = Conv1d(weight, bias, source=at_once, **how)

    def by_name(x: Any) -> Any:
        operator = torch.ops.convtune.conv1d
        return operator(x, weight, bias, padding=[3, 0], groups=4, activation="silu")

    tuner.torch.use(at_once)
    try:
        call = compiled(by_name if named else module)
        for _ in range(3):
            check(module, call, torch.randn(2, 4, 61).requires_grad_(), torch.randn(2, 4, 61))
            with torch.no_grad():
                weight.mul_(2)
                bias.add_(1)
        assert asked["gradients"] == [True, True]
        bias.requires_grad_(False)
        check(module, call, torch.randn(2, 4, 61).requires_grad_(), torch.randn(2, 4, 61))
        check(module, call, torch.randn(2, 4, 61), torch.randn(2, 4, 61))
        assert not any(asked["gradients"][2:])
    finally:
        tuner.torch.use(None)


def test_gradients_share_no_memory(module: Any) -> None:
    call, x = compiled(module), drawn(2, 6, 7, 9)
    for _ in range(2):
        needed = x, module.weight, module.bias
        found = torch.autograd.grad(call(x), needed, drawn(2, 6, 7, 9, grad=False))
        places = {each.untyped_storage().data_ptr() for each in found}
        assert len(places) == len(found)


@pytest.mark.parametrize("left_out", ["input", "weight", "bias", "weight and bias"])
def test_shortcut_is_not_taken_if_fewer_gradients_are_needed(
    module: Any, asked: dict[str, list[bool]], left_out: str
) -> None:
    call, g = compiled(module), drawn(2, 6, 7, 9, grad=False)
    check(module, call, drawn(2, 6, 7, 9), g)
    for name in ("weight", "bias"):
        getattr(module, name).requires_grad_(name not in left_out)
    check(module, call, drawn(2, 6, 7, 9, grad=left_out != "input"), g)
    assert not any(asked["gradients"])


@pytest.mark.parametrize("other", ["shape", "layout", "dtype"])
def test_shortcut_is_not_taken_for_another_shape_layout_or_dtype(
    module: Any, asked: dict[str, list[bool]], other: str
) -> None:
    call, shape = compiled(module), (2, 6, 7, 9)
    check(module, call, drawn(*shape), drawn(*shape, grad=False))
    if other == "shape":
        check(module, call, drawn(1, 6, 7, 9), drawn(1, 6, 7, 9, grad=False))
    elif other == "layout":
        x = torch.randn(shape).requires_grad_()
        check(module, call, x, torch.randn(shape))
    else:
        module.double()
        check(module, call, drawn(*shape).double(), drawn(*shape, grad=False).double())
    assert not any(asked["gradients"])


def test_new_source_without_gradients_leaves_no_shortcut(
    module: Any, source: Local, asked: dict[str, list[bool]]
) -> None:
    call, g = compiled(module), drawn(2, 6, 7, 9, grad=False)
    check(module, call, drawn(2, 6, 7, 9), g)
    module.source = source
    module.forget()
    check(module, call, drawn(2, 6, 7, 9), g)
    assert module.used_backward == {"input": "pytorch", "weight": "pytorch"}
    assert asked["gradients"] == []


def test_copied_module_has_no_gradient_shortcut(module: Any) -> None:
    x = drawn(2, 6, 7, 9)
    check(module, compiled(module), x, drawn(2, 6, 7, 9, grad=False))
    assert module.gradient_shortcut is not None
    assert deepcopy(module).gradient_shortcut is None


def test_weight_gradient_has_the_weights_shape_for_a_single_signal(trained: Local) -> None:
    torch.manual_seed(6)
    weight = torch.nn.Parameter(torch.randn(1, 1, 7))
    module = Conv1d(weight, source=trained, mode="same", kind="correlate")
    call, x, g = compiled(module), torch.randn(1001), torch.randn(1001)
    for _ in range(3):
        check(module, call, x, g)
    assert module.used_backward == {"weight": "tuned"}


def test_shortcut_ignores_used_backward_set_by_another_thread(trained: Local) -> None:
    module = Conv1d(torch.randn(7), source=trained, mode="same", kind="correlate")
    x, g = torch.randn(1001), torch.randn(1001)
    saved, needed = Saved(x, module.weight, None, None, None), PerTensor(True, True, False, False)
    with torch.no_grad():
        compute_gradients(module, g, saved, needed)
        assert module.used_backward == {"input": "pytorch", "weight": "tuned"}
        # Another thread may set this attribute by a call of another shape.
        module.used_backward = {"input": "tuned", "weight": "tuned"}
        assert GradientShortcut.of(module, g, saved, needed) is None
