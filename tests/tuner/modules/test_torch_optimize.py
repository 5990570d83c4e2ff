"""``optimize_`` on whole models: layers are replaced in place and take in what follows them."""

import copy
import io
from typing import Any

import pytest

from tuner.client.local import Local

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, Conv2dSame, close, outputs, scramble, usual  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

from tuner.torch import capture, optimize_, restore_  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

NOTHING: tuple[str, ...] = ()


def reuses_the_convolution(block: Block, y: Any) -> Any:
    return block.bn(y) + y


def reuses_the_norm(block: Block, y: Any) -> Any:
    z = block.bn(y)
    return functional.relu(z) + z


def calls_the_activation_twice(block: Block, y: Any) -> Any:
    return block.act(block.act(block.bn(y)) - 1)


def calls_the_norm_twice(block: Block, y: Any) -> Any:
    return block.bn(block.bn(y))


def returns_both(block: Block, y: Any) -> Any:
    z = block.bn(y)
    return torch.stack([z, block.act(z.clone())])


def looks_at_the_shape(block: Block, y: Any) -> Any:
    assert y.shape[1] == y.size(1) == 6
    return block.act(block.same(block.bn(y)))


def scales_between(block: Block, y: Any) -> Any:
    return block.act(block.bn(y * 2))


def reads_between(block: Block, y: Any) -> Any:
    return block.bn(y) * float(y.mean())


@pytest.mark.parametrize(
    ("call", "taken"),
    [
        (usual, ("BatchNorm2d", "ReLU6")),
        (lambda block, y: block.both(y), ("BatchNormAct2d",)),
        (lambda block, y: block.act(y), ("ReLU6",)),
        (looks_at_the_shape, ("BatchNorm2d", "ReLU6")),
        (lambda block, y: functional.relu6(block.bn(y)), ("BatchNorm2d",)),
        (reuses_the_norm, ("BatchNorm2d",)),
        (calls_the_activation_twice, ("BatchNorm2d",)),
        (returns_both, ("BatchNorm2d",)),
        (reuses_the_convolution, NOTHING),
        (calls_the_norm_twice, NOTHING),
        (scales_between, NOTHING),
        (reads_between, NOTHING),
        (lambda block, y: y, NOTHING),
    ],
)
def test_module_is_taken_in_only_if_nothing_else_uses_its_input(
    source: Local, x: Any, call: Any, taken: tuple[str, ...]
) -> None:
    """A norm or activation is taken in only if nothing else uses its input. The layer gets a bias,
    because only a kernel with a bias is tuned, and a layer without a norm would have none."""
    model = Block(call).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain, keys = outputs(model, x), list(model.state_dict())
    report = optimize_(model, x, source=source)
    (row,) = report.rows
    assert (row.by, tuple(row.takes_in)) == ("tuned", taken), str(report)
    assert close(outputs(model, x), plain)
    assert (report.error or 0) < 1e-5
    assert model.conv.used == "tuned"
    assert list(model.state_dict()) == keys
    restore_(model)
    assert type(model.conv) is nn.Conv2d
    assert torch.equal(outputs(model, x), plain)


@pytest.mark.parametrize(
    ("fuse", "taken"),
    [(("bn", "bias"), ["BatchNorm2d"]), (("bias", "act"), []), (("bn", "act", "bias"), None)],
)
def test_only_the_kinds_named_in_fuse_are_taken_in(
    source: Local, x: Any, fuse: tuple[str, ...], taken: list[str] | None
) -> None:
    model = Block(usual).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source, fuse=fuse).rows
    assert row.takes_in == (["BatchNorm2d", "ReLU6"] if taken is None else taken)
    assert close(outputs(model, x), plain)


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        (lambda block: block.bn.register_forward_hook(lambda *_: None), []),
        (lambda block: setattr(block, "act", nn.GELU(approximate="tanh")), ["BatchNorm2d"]),
        (lambda block: setattr(block, "bn", nn.BatchNorm2d(6, track_running_stats=False)), []),
        (lambda block: setattr(block, "bn", nn.BatchNorm2d(6, affine=False)), None),
        (lambda block: setattr(block, "act", nn.GELU()), ["BatchNorm2d", "GELU"]),
    ],
    ids=["hooked norm", "another gelu", "no statistics", "no parameters", "gelu"],
)
def test_norm_or_activation_that_cannot_be_folded_stays(
    source: Local, x: Any, change: Any, taken: list[str] | None
) -> None:
    model = Block(usual).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    change(model)
    model.eval()
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert row.takes_in == (["BatchNorm2d", "ReLU6"] if taken is None else taken)
    assert close(outputs(model, x), plain)


def test_optimised_model_uses_changed_parameters(source: Local, x: Any) -> None:
    model, other = Block(usual).eval(), Block(usual).eval()
    with torch.no_grad():
        for each in (*other.parameters(), *other.bn.buffers()):
            if each.is_floating_point():
                each.mul_(1.5)
    optimize_(model, x, source=source)
    before = outputs(model, x)
    model.load_state_dict(other.state_dict())
    assert close(outputs(model, x), outputs(other, x))
    assert model.conv.used == "tuned"
    assert not close(before, outputs(model, x))
    with torch.no_grad():
        model.bn.running_mean.add_(1)
        other.bn.running_mean.add_(1)
    assert close(outputs(model, x), outputs(other, x))
    before = outputs(model, x)
    model.bn.eps = other.bn.eps = 2.0
    assert close(outputs(model, x), outputs(other, x))
    assert not close(before, outputs(model, x))
    model.conv.weight = nn.Parameter(2 * model.conv.weight.detach())
    other.conv.weight = nn.Parameter(2 * other.conv.weight.detach())
    assert close(outputs(model, x), outputs(other, x))
    restore_(model)
    assert close(outputs(model, x), outputs(other, x))
    model.half()
    assert model.conv.weight.dtype == torch.float16


def test_model_optimised_for_inference_trains_as_before(source: Local, x: Any) -> None:
    """In training mode PyTorch computes: gradients and running statistics are the model's own."""
    model, own = Block(usual), Block(usual)
    report = optimize_(model, x, source=source)
    assert model.training
    assert "training mode" in str(report)
    for each in (model, own):
        each(x).square().sum().backward()
    assert model.conv.used == "pytorch"
    for (name, mine), theirs in zip(model.named_parameters(), own.parameters(), strict=True):
        if theirs.grad is not None:
            assert torch.allclose(mine.grad, theirs.grad, atol=1e-3), name
    for mine, theirs in zip(model.buffers(), own.buffers(), strict=True):
        assert torch.allclose(mine, theirs)
    assert torch.allclose(outputs(model, x), outputs(own, x), atol=1e-5)  # still training
    assert "training mode" in model.conv.reason
    model.eval(), own.eval()
    assert close(outputs(model, x), outputs(own, x))
    assert model.conv.used == "tuned"


def test_copied_and_saved_models_compute_the_same(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    plain = outputs(model, x)
    optimize_(model, x, source=source)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        model.bn.running_var.mul_(4)
    assert close(outputs(copied, x), plain)
    assert copied.conv.used == "tuned"
    assert not close(outputs(model, x), plain)
    file = io.BytesIO()
    torch.save(copied, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert close(outputs(loaded, x), plain)
    assert "set its source" in loaded.conv.reason
    restore_(loaded)
    assert torch.equal(outputs(loaded, x), plain)


@pytest.mark.parametrize("with_grad", [False, True])
def test_optimised_model_has_no_graph_break(source: Local, x: Any, with_grad: bool) -> None:
    model, own = Block(usual).eval(), Block(usual).eval()
    optimize_(model, x, source=source)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.set_grad_enabled(with_grad):
        y = compiled(x)
    assert close(y, outputs(own, x))
    if with_grad:
        y.sum().backward()
        own(x).sum().backward()
        assert torch.allclose(model.bn.weight.grad, own.bn.weight.grad, atol=1e-4)
    else:
        assert model.conv.used == "tuned"
    torch.compiler.reset()


def test_parametrised_weights_are_folded_with_present_values(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    parametrizations.weight_norm(model.conv)
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert row.by == "tuned"
    assert close(outputs(model, x), plain)
    with torch.no_grad():
        model.conv.parametrizations.weight.original0.mul_(2)
    now = outputs(model, x)
    assert model.conv.used == "tuned"
    assert not close(now, plain)
    restore_(model)
    assert close(outputs(model, x), now)


def test_timms_conv2d_is_replaced_for_all_sizes(source: Local, x: Any) -> None:
    model = Block(usual)
    model.conv = Conv2dSame(6, 6, 3, groups=6, bias=False)
    model.eval()
    other = torch.randn(2, 6, 8, 5).to(memory_format=torch.channels_last)
    plain, keys = [outputs(model, each) for each in (x, other)], list(model.state_dict())
    report = optimize_(model, x, source=source)
    assert report.rows[0].takes_in == ["BatchNorm2d", "ReLU6"], str(report)
    for each, reference, used in zip((x, other), plain, ("tuned", "pytorch"), strict=True):
        assert close(outputs(model, each), reference)
        assert model.conv.used == used
    assert list(model.state_dict()) == keys
    restore_(model)
    assert type(model.conv) is Conv2dSame
    assert torch.equal(outputs(model, x), plain[0])


def test_a_layer_in_two_places_is_replaced_in_both(source: Local, x: Any) -> None:
    conv = nn.Conv2d(6, 6, 3, padding=1, groups=6)
    model = nn.Sequential(conv, nn.ReLU(), conv).eval()
    plain = outputs(model, x)
    (row,) = optimize_(model, x, source=source).rows
    assert (row.names, row.calls, row.takes_in) == (["0", "2"], 2, [])
    assert model[0] is model[2]
    assert close(outputs(model, x), plain)
    restore_(model)
    assert model[0] is model[2] is conv


def test_layers_that_are_not_tuned_stay(source: Local, x: Any) -> None:
    model = nn.Sequential(
        nn.Conv2d(6, 6, 3, padding=1, groups=6),
        nn.Conv2d(6, 6, 5, padding=2, groups=6),
        nn.Conv2d(6, 6, 3, padding=1, groups=6, padding_mode="reflect"),
        nn.Conv2d(6, 12, 1),
    ).eval()
    report = optimize_(model, x, source=source)
    assert [type(each) for each in model] == [DepthwiseConv2d, *[nn.Conv2d] * 3]
    assert [row.by for row in report.rows] == ["tuned", "pytorch", "pytorch"]
    assert "tuner tune depthwise_conv2d" in report.rows[1].reason
    assert "padding_mode reflect" in report.rows[2].reason
    again = optimize_(model, x, source=source, filter_fn=lambda module, name: name != "0")
    assert [type(each) for each in model] == [nn.Conv2d] * 4
    assert again.tuned == 0
    assert (again.before_ms, again.error) == (None, None)


def test_shapes_are_looked_up_at_the_call_if_there_is_no_example(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = outputs(model, x)
    report = optimize_(model, source=source)
    assert "when it is called" in str(report)
    assert close(outputs(model, x), plain)
    assert model.conv.used == "tuned"
    restore_(model)
    assert torch.equal(outputs(model, x), plain)


def test_example_inputs_may_be_given_by_name(source: Local) -> None:
    class Signals(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(4, 8, 5, stride=2, padding=6, dilation=3, groups=4, bias=False)
            self.bn = nn.BatchNorm1d(8)
            scramble(self)

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return self.bn(self.conv(x)) * scale

    model, x = Signals().eval(), torch.randn(2, 4, 61)
    plain = outputs(model, x)
    report = optimize_(model, {"x": x, "scale": 1.0}, source=source)
    assert report.tuned == 1, str(report)
    assert isinstance(model.conv, Conv1d)
    assert close(outputs(model, x), plain)


class Causal(nn.Module):
    """A convolution padded on both sides, and ``call(model, output, length)`` of its output."""

    def __init__(self, call: Any, **how: int) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv = nn.Conv1d(4, 4, 4, groups=4, **({"padding": 3} | how))
        self.act, self.call = nn.SiLU(), call

    def forward(self, x: Any) -> Any:
        return self.call(self, self.conv(x), x.shape[-1])


@pytest.mark.parametrize(
    "call",
    [
        lambda model, y, samples: model.act(y[..., :samples]),
        lambda model, y, samples: model.act(y[:, :, :samples]),
        lambda model, y, samples: model.act(y[:, :, 0:samples]),
    ],
)
def test_causal_convolution_is_recognised_by_its_cut_output(source: Local, call: Any) -> None:
    model, x = Causal(call).eval(), torch.randn(2, 4, 61)
    plain = outputs(model, x)
    report = optimize_(model, x, source=source)
    (row,) = report.rows
    assert (row.by, row.takes_in) == ("tuned", ["SiLU"]), str(report)
    assert close(outputs(model, x), plain)
    assert model.conv.used == "tuned"
    shorter = x[..., :40].contiguous()  # this length is not tuned
    assert close(outputs(model, shorter), outputs(restored(model), shorter))


def restored(model: Any) -> Any:
    own = copy.deepcopy(model)
    restore_(own)
    return own


@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolution_is_recognised_whatever_uses_its_output(dilation: int) -> None:
    model = Causal(
        lambda model, y, samples: model.act(y[..., :samples].mT),
        dilation=dilation,
        padding=3 * dilation,
    )
    (found,) = capture(model, torch.randn(2, 61, 4).mT)
    assert (found.workload.mode, found.workload.activation) == ("causal", "none")
    assert (found.workload.layout, found.workload.dilation) == ("NWC", dilation)


@pytest.mark.parametrize(
    ("call", "how"),
    [
        (lambda model, y, samples: model.act(y[..., 3:]), {}),
        (lambda model, y, samples: model.act(y[..., :-2]), {}),
        (lambda model, y, samples: model.act(y[..., :-3]), {}),
        (lambda model, y, samples: model.act(y[0]), {}),
        (lambda model, y, samples: model.act(y[..., :samples:1][..., 1:]), {"padding": 2}),
        (lambda model, y, samples: y[..., :samples] + y[..., 3:], {}),
        (lambda model, y, samples: y[..., 1 : samples + 1], {}),
        (lambda model, y, samples: model.act(y)[..., :samples], {}),
        (lambda model, y, samples: y[..., :samples], {"padding": 5}),
        (lambda model, y, samples: y[..., : (samples + 1) // 2], {"stride": 2}),
    ],
)
def test_other_cuts_make_no_layer_causal(source: Local, call: Any, how: dict[str, int]) -> None:
    model, x = Causal(call, **how).eval(), torch.randn(2, 4, 61)
    plain = outputs(model, x)
    (found,) = capture(model, x)
    assert found.workload.mode != "causal"
    optimize_(model, x, source=source)
    assert close(outputs(model, x), plain)


def test_model_made_in_inference_mode_is_optimised(source: Local, x: Any) -> None:
    with torch.inference_mode():
        model = Block(usual).eval()
        plain = model(x)
    assert optimize_(model, x, source=source).tuned == 1
    assert close(outputs(model, x), plain)
