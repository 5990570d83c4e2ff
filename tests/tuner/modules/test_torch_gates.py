"""Gates around a convolution that a model calls as a function: in compiled graphs a kernel computes
them with the convolution."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch.nn import functional  # noqa: E402

from tuner.torch import GatedConv1d, capture, optimize_, restore_  # noqa: E402
from tuner.torch.model.flow.functions import layers_of  # noqa: E402

pytestmark = pytest.mark.torch

Between = Callable[[Any, Any, Any], Any]


def causal_conv1d(x: Any, weight: Any, bias: Any) -> Any:
    """Return the causal convolution as transformers computes it without a package of kernels."""
    y = functional.conv1d(
        x.to(weight.dtype),
        weight=weight.unsqueeze(1),
        bias=bias,
        padding=weight.shape[-1] - 1,
        groups=x.shape[1],
    )[:, :, : x.shape[-1]]
    return y.to(x.dtype)


class ShortConv(nn.Module):
    """A block like LFM2's. ``between(block, parts, y)`` returns what is multiplied last, by default
    the second chunk and the convolution's output."""

    def __init__(self, between: Between | None = None, width: int = 6) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.into, self.out = nn.Linear(4, 3 * width), nn.Linear(width, 4)
        self.conv = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.between = between or (lambda block, parts, y: (parts[1], y))
        self.convolve = causal_conv1d

    def forward(self, x: Any) -> Any:
        parts = self.into(x).transpose(-1, -2).chunk(3, dim=-2)
        product = parts[0] * parts[2]
        y = self.convolve(product, self.conv.weight.squeeze(1), self.conv.bias)
        behind, y = self.between(self, parts, y)
        return self.out((behind * y).transpose(-1, -2).contiguous())


class Model(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers or [ShortConv(), ShortConv()])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x)
        return x


def kernels(model: Any, *given: Any) -> tuple[Any, list[str]]:
    """Return a compiled model's output, and the classes of the layers that its graph calls."""
    called: list[str] = []
    classes = {layer._number: type(layer).__name__ for layer in layers_of(model)}

    def listed(graph: Any, _: Any) -> Any:
        for node in graph.graph.nodes:
            if node.target is torch.ops.convtune.module.default:
                called.append(classes[node.args[-1]])
        return graph.forward

    torch.compiler.reset()
    with torch.no_grad():
        y = torch.compile(model, fullgraph=True, backend=aot_autograd(fw_compiler=listed))(*given)
    return y, called


def close(a: Any, b: Any) -> bool:
    return bool(torch.allclose(a, b, atol=1e-6))


@pytest.fixture
def x() -> Any:
    torch.manual_seed(1)
    return torch.randn(2, 9, 4)


def test_graph_computes_gates_and_convolution_in_one_kernel(gated: Local, x: Any) -> None:
    model = Model().eval()
    with torch.no_grad():
        plain = model(x)
        report = optimize_(model, x, source=gated)
        assert [(row.names, row.by, row.template) for row in report.rows] == [
            ([f"layers.{number}"], "tuned", template)
            for number in range(2)
            for template in ("signals", "gated")
        ]
        assert report.rows[1].shape == "float32 bias M=9 N=4 causal B=2 C=6 NWC gated"
        assert "graphs of torch.compile" in report.rows[1].apart
        assert report.rows[0].apart == ""
        assert close(model(x), plain)
    of_eager, of_graphs = list(layers_of(model))[:2]
    of_graphs.used = None
    y, called = kernels(model, x)
    assert called == ["GatedConv1d"] * 2
    assert close(y, plain)
    assert (of_eager.used, of_graphs.used) == ("tuned", "tuned")
    restore_(model)
    assert [type(layer) for layer in model.layers] == [ShortConv] * 2
    assert vars(model.layers[0]).keys() == vars(ShortConv()).keys()


def test_wrong_gated_kernel_is_not_called(
    gated: Local, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = GatedConv1d.by_kernel
    monkeypatch.setattr(GatedConv1d, "by_kernel", lambda layer, *given: own(layer, *given) + 1)
    model = Model(ShortConv()).eval()
    report = optimize_(model, x, source=gated)
    assert [row.by for row in report.rows] == ["tuned", "pytorch"]
    assert "differs from PyTorch's" in report.rows[1].reason
    with torch.no_grad():
        plain = model(x)
    y, called = kernels(model, x)
    assert (close(y, plain), called) == (True, ["Conv1d"])


def test_report_counts_a_gated_layer_once_in_the_gain(gated: Local, x: Any) -> None:
    report = optimize_(Model().eval(), x, source=gated)
    for row in report.rows:
        row.time_us, row.pytorch_us = 1.0, 4.0 if row.graphs_only else 3.0
    assert report.expected_gain_us == 2 * (3.0 - 1.0)
    assert report.tuned == 2
    assert "2 of 2 layers are computed by tuned kernels" in str(report)
    assert report.svg().count("layers.0") == 1


def test_capture_lists_the_plain_and_the_gated_workload(x: Any) -> None:
    plain, gated = (each.workload for each in capture(Model().eval(), x))
    assert plain is not None and gated is not None
    assert gated.model_dump() == plain.model_dump() | {"gated": True}
    assert gated.inputs[0].shape == (2, 9, 18)
    for without in ({"fuse": ("bn", "bias", "act")}, {"mode": "training"}):
        found = capture(Model().eval(), x, **without)
        assert [each for each in found if each.workload and "gated" in each.workload.key] == []


def uses_the_product(block: Any, parts: Any, y: Any) -> Any:
    return parts[1], y + (parts[0] * parts[2]).mean()


def keeps_the_output(block: Any, parts: Any, y: Any) -> Any:
    block.kept = y
    return parts[1], y


@torch.library.custom_op("gates::double_", mutates_args={"x"})
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


def writes(function: Callable[[Any], Any], part: int = 0) -> Between:
    """Return a way to write to a part after the convolution was computed."""

    def between(block: Any, parts: Any, y: Any) -> Any:
        function(parts[part])
        return parts[1], y

    return between


WRITERS = {
    "an operator of a program": writes(double_),
    "an overload": writes(lambda x: torch.ops.aten.mul_.Scalar(x, 2.0)),
    "a view": writes(lambda x: x[..., 1:].zero_()),
    "the data": writes(lambda x: x.detach().fill_(3.0), part=2),
}
OTHERS: dict[str, Between] = {
    "another gate": lambda block, parts, y: (parts[0], y),
    "a part of the output": lambda block, parts, y: (parts[1], functional.pad(y[..., :8], (0, 1))),
    "a gate that was computed": lambda block, parts, y: (parts[1] * 1, y),
    "a function in between": lambda block, parts, y: (parts[1], y.abs()),
    "a use of the product": uses_the_product,
    "a gate that is written to": lambda block, parts, y: (parts[1].mul_(2), y),
    "an output that is written to": lambda block, parts, y: (parts[1], y.add_(1)),
    "a part that is set": lambda block, parts, y: (
        (parts[1], y.clone()) if parts[0].__setitem__((0, 0, 0), 5.0) else (parts[1], y)
    ),
    "an activation in place": lambda block, parts, y: (functional.relu(parts[1], True), y),
    **WRITERS,
}


UNSEEN = {"several tensors at once": writes(lambda x: torch._foreach_mul_([x], 2.0))}
"""A write that no mode sees while a graph is traced."""


@pytest.mark.parametrize("between", (OTHERS | UNSEEN).values(), ids=OTHERS | UNSEEN)
def test_graph_calls_plain_kernel_if_the_model_does_more_than_gate(
    gated: Local, x: Any, between: Between
) -> None:
    """A graph calls the plain kernel if the model does more than multiply by the gates."""
    model = Model(ShortConv(between)).eval()
    with torch.no_grad():
        plain = model(x)
        report = optimize_(model, x, source=gated)
    assert [row.shape for row in report.rows if "gated" in row.shape] == []
    y, called = kernels(model, x)
    assert called == ["Conv1d"]
    assert close(y, plain)


@pytest.mark.parametrize("between", OTHERS.values(), ids=OTHERS)
def test_graph_calls_plain_kernel_if_the_model_changes_after_the_example(
    gated: Local, x: Any, between: Between
) -> None:
    """A graph computes what the model does when it is traced, not what it did on the example."""
    model = Model(ShortConv()).eval()
    optimize_(model, x, source=gated)
    model.layers[0].between = between
    with torch.no_grad():
        plain = model(x)
    y, called = kernels(model, x)
    assert called == ["Conv1d"]
    assert close(y, plain)


def test_graph_calls_plain_kernel_after_an_augmented_assignment_to_a_gate(
    gated: Local, x: Any
) -> None:
    def between(block: Any, parts: Any, y: Any) -> Any:
        behind = parts[1]
        behind += 1
        return parts[1], y

    model = Model(ShortConv()).eval()
    optimize_(model, x, source=gated)
    model.layers[0].between = between
    with torch.no_grad():
        plain = model(x)
    y, called = kernels(model, x)
    assert (close(y, plain), called) == (True, ["Conv1d"])


def test_gated_kernel_is_not_called_if_the_model_keeps_the_plain_output(
    gated: Local, x: Any
) -> None:
    """The gated kernel does not give the output before the gates, so it is not called."""

    class Keeping(Model):
        def forward(self, x: Any) -> Any:
            y = super().forward(x)
            return y, self.layers[0].kept

    model = Keeping(ShortConv(keeps_the_output)).eval()
    with torch.no_grad():
        plain = model(x)
        report = optimize_(model, x, source=gated)
    assert [row.shape for row in report.rows] == ["float32 bias M=9 N=4 full B=2 C=6 NWC"]
    (y, kept), called = kernels(model, x)
    assert called == []
    assert close(y, plain[0])
    assert close(kept, plain[1])


def test_training_graph_does_not_call_the_gated_kernel(gated: Local, x: Any) -> None:
    model = Model(ShortConv()).eval()
    model(x).square().sum().backward()
    wanted = {name: each.grad.clone() for name, each in model.named_parameters()}
    model.zero_grad()
    optimize_(model, x, source=gated)
    torch.compiler.reset()
    of_graphs = list(layers_of(model))[1]
    of_graphs.used = None
    torch.compile(model, fullgraph=True, backend="aot_eager")(x).square().sum().backward()
    assert of_graphs.used is None
    for name, each in model.named_parameters():
        assert torch.allclose(each.grad, wanted[name], atol=1e-4), name


def test_graph_calls_plain_kernel_under_autocast(gated: Local, x: Any) -> None:
    model = Model(ShortConv()).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        plain = model(x)
    optimize_(model, x, source=gated)
    with torch.autocast("cpu", torch.bfloat16):
        y, called = kernels(model, x)
    assert (y.dtype, called) == (plain.dtype, ["Conv1d"])
    assert torch.allclose(y, plain, atol=0.05)


def test_pytorch_computes_the_gates_if_only_the_convolution_is_tuned(
    gated: Local, called: Local, x: Any
) -> None:
    """If only a shape's convolution is tuned, its kernel computes that, and PyTorch the gates."""
    model = Model(ShortConv()).eval()
    with torch.no_grad():
        plain = model(x)
        report = optimize_(model, x, source=called)
    assert [row.by for row in report.rows] == ["tuned", "pytorch"]
    y, names = kernels(model, x)
    assert (close(y, plain), names) == (True, ["Conv1d"])
    restore_(model)
    assert optimize_(model, x, source=called, on_missing="raise").tuned == 1
    restore_(model)
    optimize_(model, x, source=gated)
    of_eager, of_graphs = layers_of(model)
    of_graphs.source = called
    y, names = kernels(model, x)
    assert (close(y, plain), names) == (True, ["GatedConv1d"])
    assert (of_graphs.used, of_eager.used) == ("pytorch", "tuned")
    assert "--gated" in of_graphs.reason


@pytest.mark.parametrize("samples", [1, 2, 3, 30])
def test_graph_with_gates_is_right_for_any_number_of_samples(
    gated: Local, x: Any, samples: int
) -> None:
    model = Model(ShortConv()).eval()
    other = torch.randn(2, samples, 4)
    with torch.no_grad():
        plain = model(other)
    optimize_(model, x, source=gated)
    y, called = kernels(model, other)
    assert (y.shape, called) == (plain.shape, ["GatedConv1d"])
    assert close(y, plain)
    torch.compiler.reset()
    with torch.no_grad():
        changing = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
        changing(x)
        assert close(changing(other), plain)


def test_chunk_called_with_keyword_arguments_is_not_taken_for_a_gate(gated: Local, x: Any) -> None:
    class Named(ShortConv):
        def forward(self, x: Any) -> Any:
            parts = torch.chunk(input=self.into(x).mT, chunks=3, dim=1)
            y = self.convolve(parts[0] * parts[2], self.conv.weight.squeeze(1), self.conv.bias)
            return self.out((parts[1] * y).mT)

    model = Model(Named()).eval()
    with torch.no_grad():
        plain = model(x)
        assert [row.graphs_only for row in optimize_(model, x, source=gated).rows] == [False]
    y, called = kernels(model, x)
    assert (close(y, plain), called) == (True, ["Conv1d"])


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301
def test_model_copies_have_their_own_gated_layers(gated: Local, x: Any, copied: Any) -> None:
    model = Model(nn.Sequential()).eval()
    model.layers[0] = ShortConv()
    model.layers[0].between = second_chunk
    with torch.no_grad():
        plain = model(x)
    optimize_(model, x, source=gated)
    twin = copied(model)
    numbers = [layer._number for of in (model, twin) for layer in layers_of(of)]
    assert len({*numbers}) == 4
    for layer in layers_of(twin):
        layer.source = gated
    y, called = kernels(twin, x)
    assert (close(y, plain), called) == (True, ["GatedConv1d"])


def second_chunk(block: Any, parts: Any, y: Any) -> Any:
    return parts[1], y
