"""``Conv1d.of`` and ``DepthwiseConv2d.of``: which modules they replace, which they refuse, and that
a replacement computes what the module did."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.client.local import Local
from tuner.errors import WrongArgument

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Conv2dSame  # noqa: E402
from torch.nn.utils import parametrizations, parametrize, prune  # noqa: E402

from tuner.torch import optimize_, restore_  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]
SHAPE = (2, 3, 9, 20)
"""The shape of the input for which a depthwise library is tuned."""


def depthwise(kind: Any = torch.nn.Conv2d, **given: Any) -> Any:
    return kind(3, 3, 3, padding=1, groups=3, **given)


class Doubled(torch.nn.Conv2d):
    def forward(self, x: Any) -> Any:
        return 2 * super().forward(x)


def other_classes() -> list[Any]:
    import torch.ao.nn.intrinsic.qat
    import torch.ao.nn.qat
    from torch.ao.quantization import get_default_qat_qconfig

    qat = {"qconfig": get_default_qat_qconfig()}
    return [
        torch.nn.ConvTranspose1d(1, 1, 7, padding=3),
        depthwise(torch.nn.ConvTranspose2d),
        depthwise(torch.ao.nn.qat.Conv2d, **qat),
        depthwise(torch.ao.nn.intrinsic.qat.ConvReLU2d, **qat),
        depthwise(Doubled),
        torch.nn.LazyConv2d(3, 3, padding=1, groups=3),
        parametrizations.weight_norm(depthwise(Doubled)),
        torch.nn.Conv1d(3, 3, 3, padding=1, groups=3),
    ]


def test_of_refuses_modules_of_other_classes(source: Local) -> None:
    for module in other_classes():
        with pytest.raises(WrongArgument, match=r"than torch\.nn\.Conv2d; leave this one"):
            DepthwiseConv2d.of(module, source=source)
    with pytest.raises(WrongArgument, match=r"ConvTranspose1d, which .* than torch\.nn\.Conv1d"):
        Conv1d.of(torch.nn.ConvTranspose1d(1, 1, 7, padding=3), source=source)


def test_lazy_layer_is_replaced_once_a_call_has_initialised_it(source: Local) -> None:
    model = torch.nn.Sequential(torch.nn.LazyConv2d(3, 3, padding=1, groups=3)).eval()
    (row,) = optimize_(model, torch.randn(SHAPE), source=source).rows
    assert row.by == "tuned"


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("size", "dilation"), [(3, 1), ((2, 5), 1), (4, 2)])
def test_replacement_of_timms_conv2d_pads_each_input_size_as_timm(
    source: Local, stride: int, size: Any, dilation: int
) -> None:
    module = Conv2dSame(3, 3, size, stride=stride, dilation=dilation, groups=3)
    made = DepthwiseConv2d.of(module, source=source)
    compiled = made
    if (stride, dilation) == (2, 2):
        compiled = torch.compile(made, backend="aot_eager", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for height, width in ((9, 20), (8, 7), (2, 1), (10, 12)):
            x = torch.randn(2, 3, height, width)
            y = module(x)
            assert y.shape[-2:] == (-(-height // stride), -(-width // stride))
            torch.testing.assert_close(made(x), y, atol=1e-5, rtol=1e-4)
            tuned = (stride, size, dilation, height, width) == (1, 3, 1, 9, 20)
            assert made.used == ("tuned" if tuned else "pytorch")
            torch.testing.assert_close(compiled(x), y, atol=1e-5, rtol=1e-4)
    torch.compiler.reset()


def test_of_refuses_modules_that_only_look_like_timms_conv2d(source: Local) -> None:
    padded = Conv2dSame(3, 3, 3, groups=3)
    padded.padding = (1, 1)
    with pytest.raises(WrongArgument, match=r"padding \(1, 1\), and the operator takes \(0, 0\)"):
        DepthwiseConv2d.of(padded, source=source)
    foreign = type("Conv2dSame", (torch.nn.Identity,), {})()
    with pytest.raises(WrongArgument, match="may compute something other"):
        DepthwiseConv2d.of(foreign, source=source)


class Wide(torch.nn.Conv2d):
    """A subclass that only sets arguments and a representation, as models define one to name a
    layer."""

    def __init__(self, channels: int, kernel: int = 3) -> None:
        super().__init__(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def extra_repr(self) -> str:
        return "wide"


class Wider(Wide):
    pass


class Buffered(Wide):
    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.register_buffer("steps", torch.zeros(1))


@pytest.mark.parametrize("kind", [Wide, Wider])
def test_subclass_that_only_sets_arguments_is_replaced(kind: type[Wide], source: Local) -> None:
    module = kind(SHAPE[1])
    made = DepthwiseConv2d.of(module, source=source)
    x = torch.randn(SHAPE)
    with torch.no_grad():
        torch.testing.assert_close(made(x), module(x), atol=1e-5, rtol=1e-5)
    assert made.used == "tuned"


def test_subclass_with_a_further_buffer_is_refused(source: Local) -> None:
    with pytest.raises(WrongArgument, match="has steps beside its weight and bias"):
        DepthwiseConv2d.of(Buffered(SHAPE[1]), source=source)


def test_layer_with_its_own_forward_is_refused(source: Local) -> None:
    module = depthwise()
    module.forward = lambda x: x
    with pytest.raises(WrongArgument, match="has a forward of its own"):
        DepthwiseConv2d.of(module, source=source)


def test_layer_with_hooks_is_refused(source: Local) -> None:
    hooked = [depthwise() for _ in range(4)]
    hooked[0].register_forward_pre_hook(lambda module, x: None)
    hooked[1].register_forward_hook(lambda module, x, y: 2 * y)
    hooked[2].register_full_backward_hook(lambda module, x, y: None)
    hooked[3].register_full_backward_pre_hook(lambda module, y: None)
    hooked.append(torch.nn.utils.weight_norm(depthwise()))
    hooked.append(torch.nn.utils.spectral_norm(depthwise()))
    hooked.append(prune.l1_unstructured(depthwise(), "weight", 0.5))
    for module in hooked:
        with pytest.raises(WrongArgument, match=r"has hooks \(.*; remove them"):
            DepthwiseConv2d.of(module, source=source)
    torch.nn.utils.remove_weight_norm(hooked[4])
    prune.remove(hooked[6], "weight")
    x = torch.randn(SHAPE)
    for module in (hooked[4], hooked[6]):
        made = DepthwiseConv2d.of(module, source=source)
        with torch.no_grad():
            torch.testing.assert_close(made(x), module(x), atol=1e-5, rtol=1e-5)
        assert made.used == "tuned"


def test_layer_whose_weight_is_no_parameter_is_refused(source: Local) -> None:
    module = depthwise()
    weight = module.weight.detach()
    del module.weight
    module.weight = weight
    with pytest.raises(WrongArgument, match="is not one of its parameters"):
        DepthwiseConv2d.of(module, source=source)


class Positive(torch.nn.Module):  # type: ignore[misc]
    def forward(self, weight: Any) -> Any:
        return weight.exp()


def positive(module: Any) -> Any:
    parametrize.register_parametrization(module, "bias", Positive())
    return parametrize.register_parametrization(module, "weight", Positive())


@pytest.mark.parametrize(
    "parametrized", [parametrizations.weight_norm, parametrizations.spectral_norm, positive]
)
def test_parametrised_weights_are_read_at_each_call(source: Local, parametrized: Any) -> None:
    plain = parametrized(depthwise()).eval()
    module = DepthwiseConv2d.of(plain, source=source)
    assert not module.training
    x = torch.randn(SHAPE)
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(module(x), plain(x), atol=1e-5, rtol=1e-4)
            assert module.used == "tuned"
            for parameter in plain.parameters():  # an optimiser changes them in place, too
                parameter.mul_(1.25)
    ours, theirs = dict(module.named_parameters()), dict(plain.named_parameters())
    assert {name: id(each) for name, each in ours.items()} == {
        name: id(each) for name, each in theirs.items()
    }
    assert module.state_dict().keys() == plain.state_dict().keys()
    module(x).sum().backward()
    assert (module.used, module.used_backward) == ("tuned", {"weight": "pytorch"})
    assert all(parameter.grad is not None for parameter in plain.parameters())


@pytest.mark.parametrize(
    "changed",
    [
        parametrizations.weight_norm,
        torch.nn.utils.weight_norm,
        lambda module: prune.l1_unstructured(module, "weight", 0.5),
    ],
)
def test_weight_norm_or_pruning_added_later_is_computed(source: Local, changed: Any) -> None:
    plain = depthwise()
    module = DepthwiseConv2d.of(plain, source=source)
    x = torch.randn(SHAPE)
    with torch.no_grad():
        module(x)
        changed(module)
        for parameter in module.parameters():
            parameter.mul_(1.25)
        y = module(x)
        assert module.used == "tuned"
        weight, bias = module.weight, module.bias
        reference = torch.nn.functional.conv2d(x, weight, bias, padding=1, groups=3)
        torch.testing.assert_close(y, reference, atol=1e-5, rtol=1e-4)


@st.composite
def conv1d(draw: Any) -> tuple[Any, tuple[int, ...]]:
    """Draw a Conv1d and the shape of an input that it takes."""
    if draw(st.booleans()):  # a shape that is often tuned
        length, taps, padding = 1001, 7, 3
    else:
        length, taps = draw(st.integers(8, 40)), draw(st.integers(1, 8))
        padding = draw(st.sampled_from([0, "valid", "same", taps // 2, taps - 1, 2]))
    channels = draw(st.sampled_from([1, 1, 2, 4]))
    module = torch.nn.Conv1d(
        channels,
        channels * draw(st.sampled_from([1, 1, 2])),
        taps,
        stride=1 if padding == "same" else draw(st.sampled_from([1, 1, 3])),
        groups=draw(st.sampled_from(sorted({1, channels // 2 or 1, channels}))),
        padding=padding,
        dilation=draw(st.sampled_from([1, 1, 1, 2])) if taps < 5 else 1,
        padding_mode=draw(st.sampled_from(["zeros", "zeros", "circular"])),
        bias=draw(st.booleans()),
    )
    batch = draw(st.sampled_from([(), (1,), (3,)]))
    return module, (*batch, channels, length)


@st.composite
def conv2d(draw: Any) -> tuple[Any, tuple[int, ...]]:
    if draw(st.booleans()):
        batch, channels, size, extents = (2,), 3, 3, (9, 20)
    else:
        batch = draw(st.sampled_from([(), (1,), (3,)]))
        channels, size = draw(st.integers(1, 4)), draw(st.integers(1, 5))
        extents = (draw(st.integers(6, 12)), draw(st.integers(6, 12)))
    groups = draw(st.sampled_from([channels, channels, channels, 1]))
    stride = draw(st.sampled_from([1, 1, 2, 4, (1, 2)]))
    paddings = [size // 2, size // 2, 0] + (["same"] if stride == 1 else [])
    module = torch.nn.Conv2d(
        channels,
        channels * draw(st.sampled_from([1, 1, 1, 2])),
        size,
        padding=draw(st.sampled_from(paddings)),
        stride=stride,
        dilation=draw(st.sampled_from([1, 1, 2])) if size < 4 else 1,
        groups=groups,
        bias=draw(st.booleans()),
    )
    return module, (*batch, channels, *extents)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=st.one_of(conv1d(), conv2d()), parametrized=st.booleans(), seed=st.integers(0, 99))
def test_a_replacement_computes_what_the_module_does(
    source: Local, drawn: tuple[Any, tuple[int, ...]], parametrized: bool, seed: int
) -> None:
    """A module that cannot be replaced is refused by WrongArgument instead."""
    plain, shape = drawn
    if parametrized:
        parametrizations.weight_norm(plain)
    kind = Conv1d if type(plain).__name__.endswith("1d") else DepthwiseConv2d
    try:
        module = kind.of(plain, source=source)
    except WrongArgument:
        return
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    if x.ndim == 4 and seed % 2:
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        y, reference = module(x), plain(x)
    assert module.used == "tuned" or module.reason
    torch.testing.assert_close(y, reference, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("change", [lambda *_, **__: None, optimize_], ids=["once", "twice"])
def test_optimize_and_restore_keep_the_state_of_a_parametrisation(
    source: Local, change: Any
) -> None:
    model, x = torch.nn.Sequential(parametrizations.spectral_norm(depthwise())), torch.randn(SHAPE)
    state = {name: value.clone() for name, value in model.eval().state_dict().items()}
    for each in (optimize_, change, lambda model, *_, **__: restore_(model)):
        each(model, x, source=source)
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_optimize_and_restore_keep_the_order_of_parameters(
    source: Local, trained: Local, x: Any, mode: Any
) -> None:
    """Without a weight norm or a pruning, a convolution has its bias before its weight."""
    model = torch.nn.Sequential(torch.nn.Conv2d(6, 6, 3, padding=1, groups=6), torch.nn.SiLU())
    prune.remove(prune.l1_unstructured(model[0], "weight", amount=0.3), "weight")
    order = [name for name, _ in model.named_parameters()]
    assert order == ["0.bias", "0.weight"]
    report = optimize_(model, x, source=source if mode == "inference" else trained, mode=mode)
    assert {row.by for row in report.rows} == {"tuned"}
    assert [name for name, _ in model.named_parameters()] == order
    restore_(model)
    assert [name for name, _ in model.named_parameters()] == order


def test_state_dict_hooks_of_a_replaced_layer_are_kept(source: Local, x: Any) -> None:
    def rename(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
        state[prefix + "weight"] = state.pop(prefix + "kernel", None)

    def add(module: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
        state[prefix + "kernel"] = state.pop(prefix + "weight")

    conv = torch.nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    model = torch.nn.Sequential(conv, torch.nn.BatchNorm2d(6), torch.nn.ReLU6()).eval()
    model[0].register_load_state_dict_pre_hook(rename)
    model[0].register_state_dict_post_hook(add)
    replace = lambda model: optimize_(model, x, source=source)  # noqa: E731
    for change in (id, replace, restore_):
        change(model)
        assert (model[0] is conv) is (change is not replace)
        state = model.state_dict()
        assert "0.kernel" in state
        assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
