"""The PyTorch modules: a tuned kernel computes them if there is one, else PyTorch, and the module
says which."""

import copy
import logging
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from service_process import Service
from small_libraries import arrays, error, expected, workload
from stored_best import store

from db.sql.engine import open_engine
from templates.conv1d.workload import Mode
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.errors import WrongArgument
from tuner.peers.torch_arrays import to_tensor
from tuner.settings import Settings

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tuner.torch import optimize_  # noqa: E402
from tuner.torch.modules import Conv1d, DepthwiseConv2d  # noqa: E402

pytestmark = pytest.mark.torch


def tensors(name: str, seed: int = 0) -> tuple[Any, Any]:
    x, w = (to_tensor(each, "cpu") for each in arrays(workload(name), seed))
    return x, w


def made(name: str, w: Any, source: Any, bias: Any = None) -> Any:
    if name == "depthwise":
        return DepthwiseConv2d(w, bias, source=source)
    work = workload(name).model_dump()
    return Conv1d(w, bias, source=source, mode=work["mode"], kind=work["kind"])


def worst(y: Any, reference: Any) -> float:
    return error(y.detach().double().numpy().reshape(reference.shape), reference)


@pytest.mark.parametrize("name", ["full", "same", "half", "bfloat16", "depthwise"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
def test_tuned_kernel_computes_a_tuned_shape(source: Local, name: str, with_bias: bool) -> None:
    x, w = tensors(name)
    channels = 3 if name == "depthwise" else 1
    bias = torch.arange(1, channels + 1).to(w.dtype) if with_bias else None
    module = made(name, w, source, bias)
    y = module(x)
    assert module.used == "tuned"
    assert module.reason in ("direct", "tiled")
    reference = expected(name, x.double().numpy(), w.double().numpy())
    if bias is not None:
        added = bias.double().numpy()
        reference = reference + (added[:, None, None] if name == "depthwise" else added)
    assert worst(y, reference) < workload(name).max_error
    assert not y.requires_grad


def test_kernel_adds_the_bias_if_tuned_with_one(source: Local) -> None:
    """A kernel tuned with a bias adds it, and sees later changes of it. The test above has the
    other case: PyTorch adds the bias to the output of a kernel without one."""
    draw = np.random.default_rng(2)
    x, w, bias = (
        torch.from_numpy(draw.standard_normal(shape).astype("f4"))
        for shape in ((2, 6, 7, 9), (6, 1, 3, 3), (6,))
    )
    last = x.to(memory_format=torch.channels_last)
    module = DepthwiseConv2d(w, torch.nn.Parameter(bias.clone()), source=source)
    with torch.no_grad():
        y = module(last)
        assert (module.used, module.reason) == ("tuned", "tiled")
        (found,) = module._found.values()
        assert found.library.workload.bias
        exact = torch.nn.functional.conv2d(x, w, bias, padding=1, groups=6)
        assert torch.allclose(y, exact, atol=1e-5)
        module.bias.copy_(2 * bias)
        assert torch.allclose(module(last) - y, bias.view(6, 1, 1).expand_as(y), atol=1e-5)
        module.bias = torch.nn.Parameter(-bias)
        exact = torch.nn.functional.conv2d(x, w, -bias, padding=1, groups=6)
        assert torch.allclose(module(last), exact, atol=1e-5)
    module.bias = None
    module(last)
    assert module.used == "pytorch"
    assert "nothing is tuned" in module.reason
    assert "--bias" not in module.reason


@pytest.mark.parametrize("name", ["full", "same", "depthwise"])
def test_pytorch_computes_gradients_if_only_the_output_is_tuned(source: Local, name: str) -> None:
    x, w = tensors(name)
    module = made(name, w.requires_grad_(), source)
    y = module(x)
    assert module.used == "tuned"
    assert worst(y, expected(name, x.numpy(), w.detach().numpy())) < 1e-5
    y.sum().backward()
    assert module.used_backward == {"weight": "pytorch"}
    grad, module.weight.grad = module.weight.grad, None
    module.plain(x, module.weight, None).sum().backward()
    assert torch.equal(grad, module.weight.grad)
    with torch.no_grad():
        assert torch.allclose(module(x), y, atol=1e-4)
    assert module.used == "tuned"


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize("taps", [1, 4, 5])
def test_pytorch_computes_numpys_result_for_an_untuned_shape(
    source: Local, mode: Any, kind: Any, taps: int
) -> None:
    draw = np.random.default_rng(taps)
    x, w = draw.standard_normal(11).astype("f4"), draw.standard_normal(taps).astype("f4")
    module = Conv1d(torch.from_numpy(w), source=source, mode=mode, kind=kind)
    y = module(torch.from_numpy(x))
    assert module.used == "pytorch"
    assert module.reason.startswith("nothing is tuned for conv1d --M 11 --N")
    function = np.convolve if kind == "convolve" else np.correlate
    by_numpy = function(x.astype("f8"), w.astype("f8"), "full" if mode == "causal" else mode)
    assert worst(y, by_numpy[: len(x)] if mode == "causal" else by_numpy) < 1e-5


def test_conv1d_replaces_pytorchs_conv1d(source: Local) -> None:
    plain = torch.nn.Conv1d(1, 1, 7, padding=3)
    module = Conv1d.of(plain, source=source)
    assert module.weight is plain.weight
    module.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for shape in ((1, 1, 1001), (1, 1001)):
            x = torch.randn(shape)
            y = module(x)
            assert (module.used, y.shape) == ("tuned", x.shape)
            assert torch.allclose(y, plain(x), atol=1e-5)
        batch = torch.randn(4, 1, 1001)
        assert torch.equal(module(batch), plain(batch))
        assert module.reason.startswith("nothing is tuned for conv1d --bias --M 1001")
        with pytest.raises(RuntimeError, match="channels"):  # PyTorch's own error
            module(torch.randn(4, 2, 1001))
    assert module.reason == "the input has shape (4, 2, 1001), not (B, 1, M)"


class Constant(torch.nn.Conv2d):
    def reset_parameters(self) -> None:
        torch.nn.init.constant_(self.weight, 0.5)
        torch.nn.init.uniform_(self.bias)


@pytest.mark.parametrize("kind", [torch.nn.Conv2d, Constant])
def test_reset_parameters_draws_the_same_in_a_replacement(source: Local, kind: Any) -> None:
    plain = torch.nn.Sequential(kind(3, 3, 3, padding=1, groups=3)).eval()
    model = copy.deepcopy(plain)
    optimize_(model, tensors("depthwise")[0], source=source)
    assert isinstance(model[0], DepthwiseConv2d)
    for each in (plain, model):
        torch.manual_seed(1)
        each[0].reset_parameters()
    assert torch.equal(model[0].weight, plain[0].weight)
    assert torch.equal(model[0].bias, plain[0].bias)


def test_conv1d_with_groups_stride_and_dilation_equals_pytorchs(source: Local) -> None:
    plain = torch.nn.Conv1d(4, 8, 5, stride=2, padding=6, dilation=3, groups=4)
    module = Conv1d.of(plain, source=source)
    with torch.no_grad():
        for batch in (torch.randn(2, 4, 61), torch.randn(4, 61), torch.randn(5, 4, 61)):
            y = module(batch)
            assert y.shape == plain(batch).shape
            assert torch.allclose(y, plain(batch), atol=1e-5)
            assert module.used == ("tuned" if len(batch) == 2 else "pytorch")


def test_conv1d_tuned_for_channels_last_keeps_them(source: Local) -> None:
    plain = torch.nn.Conv1d(4, 6, 5, padding="same")
    module = Conv1d.of(plain, source=source)
    x = torch.randn(2, 61, 4).mT
    with torch.no_grad():
        y = module(x)
        assert (module.used, y.shape, y.mT.is_contiguous()) == ("tuned", (2, 6, 61), True)
        assert torch.allclose(y, plain(x), atol=1e-5)
        assert torch.allclose(module(x.contiguous()), y, atol=1e-5)
        assert module.used == "pytorch"


def test_depthwise_conv2d_replaces_pytorchs_conv2d(source: Local) -> None:
    plain = torch.nn.Conv2d(3, 3, 3, padding="same", groups=3)
    module = DepthwiseConv2d.of(plain, source=source)
    x = torch.randn(2, 3, 9, 20)
    with torch.no_grad():
        y = module(x)
        assert (module.used, y.shape) == ("tuned", x.shape)
        assert torch.allclose(y, plain(x), atol=1e-5)
        y = module(x[0])
        assert (module.used, y.shape) == ("pytorch", x[0].shape)
        assert torch.allclose(y, plain(x[0]), atol=1e-5)


@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
def test_depthwise_conv2d_tuned_for_channels_last_keeps_them(
    source: Local, with_bias: bool
) -> None:
    plain = torch.nn.Conv2d(6, 6, (3, 5), padding="valid", groups=6, bias=with_bias)
    module = DepthwiseConv2d(
        plain.weight, plain.bias, source=source, padding=(0, 2, 1, 2), channels=6
    )
    x = torch.randn(2, 6, 9, 20).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        y = module(x)
        assert module.used == "tuned"
        reference = plain(torch.nn.functional.pad(x, (2, 2, 0, 1)))
        assert (y.shape, y.stride()) == (reference.shape, reference.stride())
        assert torch.allclose(y, reference, atol=1e-5)
        y = module(x.contiguous())
        assert module.used == "pytorch"
        assert torch.allclose(y, reference, atol=1e-5)


@pytest.mark.parametrize(
    "plain",
    [
        torch.nn.Conv1d(4, 4, 3, groups=2),
        torch.nn.Conv1d(1, 1, 3, padding=1, padding_mode="reflect"),
        torch.nn.Conv2d(4, 4, 3, padding=1),
        torch.nn.Conv2d(4, 8, 3, padding=1, groups=2),
        torch.nn.Conv2d(4, 4, 3, groups=4, dilation=(1, 2)),
        torch.nn.Conv2d(4, 4, 3, padding=1, groups=4, padding_mode="circular"),
        torch.nn.Conv2d(4, 4, 3, padding=1, groups=4, stride=5),
        torch.nn.Conv2d(4, 4, 3, padding=1, groups=4, stride=(1, 2)),
    ],
    ids=str,
)
def test_of_refuses_layers_that_no_operator_computes(source: Local, plain: Any) -> None:
    kind = Conv1d if isinstance(plain, torch.nn.Conv1d) else DepthwiseConv2d
    with pytest.raises(WrongArgument):
        kind.of(plain, source=source)


def test_pytorch_computes_calls_that_no_kernel_takes(source: Local) -> None:
    x, w = tensors("depthwise")
    module = DepthwiseConv2d(w, source=source)
    reference = module(x)
    assert module.used == "tuned"
    for given, why in (
        (x.to(memory_format=torch.channels_last), "nothing is tuned"),
        (x[:1].clone().requires_grad_(), "gradients are needed"),
        (torch._neg_view(-x), "negated view"),
    ):
        assert torch.allclose(module(given), reference[: len(given)], atol=1e-5)
        assert module.used == "pytorch"
        assert why in module.reason
    with torch.autocast("cpu", torch.bfloat16):
        assert module(x).dtype == torch.bfloat16
    assert "nothing is tuned" in module.reason
    with pytest.raises(RuntimeError):  # PyTorch's own error
        module(x.double())
    assert module.reason.startswith("input is torch.float64, weight torch.float32")
    assert DepthwiseConv2d(w.double(), source=source)(x.double()).dtype == torch.float64


def test_max_error_is_part_of_the_looked_up_workload(source: Local) -> None:
    x, w = tensors("depthwise")
    for max_error, why in ((1e-3, "--max-error 0.001"), (1e-9, "limits: max_error must be")):
        module = DepthwiseConv2d(w, source=source, max_error=max_error)
        module(x)
        assert module.used == "pytorch"
        assert why in module.reason


def test_shape_is_looked_up_and_logged_once(
    source: Local, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []
    best = Local.best

    def counted(self: Local, *arguments: Any, **named: Any) -> Any:
        asked.append(arguments)
        return best(self, *arguments, **named)

    monkeypatch.setattr(Local, "best", counted)
    x, w = tensors("depthwise")
    module = DepthwiseConv2d(w, source=source)
    with caplog.at_level(logging.INFO, logger="tuner.torch.modules"):
        for _ in range(3):
            module(x)
            module(x[:1])
    assert len(asked) == 2
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "DepthwiseConv2d is computed by tuned: tiled"
    assert second.startswith("DepthwiseConv2d is computed by pytorch: nothing is tuned for")
    module.forget()
    module(x)
    assert len(asked) == 3


def test_module_asks_a_service(client: Client) -> None:
    x, w = tensors("full")
    module = Conv1d(w, source=client)
    assert worst(module(x), expected("full", x.numpy(), w.numpy())) < 1e-5
    assert module.used == "tuned"
    assert repr(module) == "Conv1d(32 taps, mode=full, kind=convolve)"


def test_pytorch_computes_if_no_service_answers(tmp_path: Path) -> None:
    x, w = tensors("full")
    with Client("http://127.0.0.1:1", cache=tmp_path) as away:
        module = Conv1d(w, source=away)
        assert worst(module(x), expected("full", x.numpy(), w.numpy())) < 1e-5
    assert module.used == "pytorch"
    assert module.reason.startswith("no service answers")


def peers(**times_us: float) -> list[dict[str, Any]]:
    """Return the baselines of a round in which the best took 20 µs, from peers' times in µs."""
    return [
        {"name": name.replace("_", " "), "time_us": time_us, "speedup": time_us / 20}
        for name, time_us in times_us.items()
    ]


@pytest.mark.parametrize(
    ("library", "round_", "used"),
    [
        ("same-serial", peers(pytorch=12.0, numpy=15.0), "pytorch"),
        ("same-serial", peers(pytorch=25.0, numpy=12.0), "tuned"),
        ("same-serial", peers(pytorch=25.0, pytorch_fft=12.0), "tuned"),
        ("same-serial", peers(pytorch=25.0, pytorch_compiled=12.0), "tuned"),
        ("same-serial", peers(pytorch=25.0, default=12.0), "tuned"),
        ("depthwise-serial", peers(pytorch_NHWC=12.0), "pytorch"),
        ("depthwise-serial", peers(pytorch_NHWC=12.0, pytorch_NCHW=15.0), "pytorch"),
        ("depthwise-serial", peers(pytorch_NHWC=12.0, pytorch_NCHW=25.0), "tuned"),
    ],
)
def test_pytorch_computes_a_shape_if_it_was_faster(
    libraries: dict[str, Path], tmp_path: Path, library: str, round_: Any, used: str
) -> None:
    """PyTorch computes a shape if its eager convolution was faster in the round than the best, in
    each layout that was timed. Other peers and PyTorch by transform or compiled do not count."""
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'convtune.db'}")
    name = library.partition("-")[0]
    with Local(settings, cache=tmp_path / "cache") as source:
        engine = open_engine(settings.database_url)
        store(engine, libraries[library], round_)
        engine.dispose()
        x, w = tensors(name)
        module = made(name, w, source)
        y = module(x)
    assert module.used == used
    assert worst(y, expected(name, x.numpy(), w.numpy())) < 1e-5
    if used == "pytorch":
        assert "was the fastest when this shape was tuned: 12 µs" in module.reason


def test_a_service_says_that_pytorch_was_faster(libraries: dict[str, Path], tmp_path: Path) -> None:
    running = Service(tmp_path)
    try:
        store(running.engine, libraries["same-serial"], peers(pytorch=12.0))
        x, w = tensors("same")
        with Client(running.url, cache=tmp_path / "cache") as source:
            module = made("same", w, source)
            module(x)
    finally:
        running.close()
    assert (module.used, module.reason[:23]) == ("pytorch", "pytorch was the fastest")


@pytest.mark.parametrize("activation", ["none", "relu", "relu6", "silu", "gelu", "hardswish"])
@pytest.mark.parametrize("layout", ["first", "last"])
def test_module_adds_a_residual_and_applies_an_activation(
    source: Local, x: Any, activation: Any, layout: str
) -> None:
    """If a kernel is tuned without both (layout "last"), PyTorch applies them to its output. If
    nothing is tuned, PyTorch computes everything."""
    x = x.contiguous() if layout == "first" else x
    weight, bias, residual = torch.randn(6, 1, 3, 3), torch.randn(6), torch.randn_like(x)
    module = DepthwiseConv2d(weight, bias, source=source, activation=activation)
    apply = getattr(torch.nn.functional, activation, lambda y: y)
    sums = torch.nn.functional.conv2d(x, weight, bias, padding=1, groups=6)
    assert torch.allclose(module(x, residual), apply(sums + residual), atol=1e-5)
    assert module.used == ("tuned" if layout == "last" else "pytorch")
    assert torch.allclose(module(x), apply(sums), atol=1e-5)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.allclose(compiled(x, residual), apply(sums + residual), atol=1e-5)
    torch.compiler.reset()
    one = residual[:, :1]  # this residual is broadcast, as PyTorch adds it
    assert torch.allclose(module(x, one), apply(sums + one), atol=1e-5)
    assert module.used == "pytorch"


def test_an_unknown_activation_is_refused(source: Local) -> None:
    with pytest.raises(WrongArgument, match="activation is 'tanh', and must be one of none, relu"):
        DepthwiseConv2d(torch.randn(6, 1, 3, 3), source=source, activation="tanh")
