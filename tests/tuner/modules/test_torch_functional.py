"""Convolutions that a model calls as functions, not as modules: tuned layers compute them too."""

import inspect
import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tuner.client.local import Local

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tuner.errors import WrongArgument  # noqa: E402
from tuner.torch import capture, optimize_, restore_  # noqa: E402
from tuner.torch.model.flow.functions import MANY, layers_of  # noqa: E402
from tuner.torch.model.survey import Terms, survey  # noqa: E402
from tuner.torch.model.swap import swaps_of  # noqa: E402

pytestmark = pytest.mark.torch


def causal_conv1d(x: Any, weight: Any, bias: Any) -> Any:
    """Return the causal convolution with SiLU that state-space models such as Mamba compute in
    PyTorch if no kernel for it is installed."""
    padding = weight.shape[-1] - 1
    y = functional.conv1d(
        x, weight=weight.unsqueeze(1), bias=bias, padding=padding, groups=x.shape[1]
    )
    return functional.silu(y[:, :, : x.shape[-1]])


def next_conv1d(x: Any, state: Any, weight: Any, bias: Any) -> Any:
    """Return the causal convolution with SiLU at one new sample ``x``, which follows the samples
    in ``state``; shift ``state`` by that sample."""
    seen = torch.cat([state, x], -1)
    state.copy_(seen[..., 1:])
    return functional.silu(functional.conv1d(seen, weight.unsqueeze(1), bias, groups=x.shape[1]))


class Mixer(nn.Module):
    """A layer that keeps its parameters in a Conv1d but calls a function with them, as Mamba's
    does. ``functions`` is a number of further additions in each call."""

    def __init__(self, width: int, functions: int = 0) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(4, 2 * width), nn.Linear(width, 4)
        self.conv1d = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.functions = functions

    def forward(self, x: Any, state: Any = None) -> Any:
        y, gate = self.into(x).mT.chunk(2, dim=1)
        weight, bias = self.conv1d.weight.squeeze(1), self.conv1d.bias
        if state is not None and x.shape[1] == 1:
            y = next_conv1d(y, state, weight, bias)
        else:
            if state is not None:
                state.copy_(functional.pad(y, (3, 0))[..., -3:])
            y = causal_conv1d(y, weight, bias)
        for _ in range(self.functions):
            y = y + 1
        return x + self.out((y * functional.silu(gate)).mT)


class Mamba(nn.Module):
    """A model like Mamba: a Conv1d as a module, then mixers, which call functions."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Conv1d(4, 4, 3, padding=1)
        self.layers = nn.ModuleList(layers or [Mixer(6), Mixer(6), Mixer(8)])

    def forward(self, x: Any) -> Any:
        y = self.first(x.mT).mT
        for layer in self.layers:
            y = layer(y)
        return y


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


@pytest.fixture
def x() -> Any:
    torch.manual_seed(1)
    return torch.randn(2, 9, 4)


def test_tuned_layer_computes_convolutions_called_as_functions(called: Local, x: Any) -> None:
    model = Mamba().eval()
    plain, keys = model(x), [*model.state_dict()]
    report = optimize_(model, x, source=called)
    first, *rows = report.rows
    assert first.names == ["first"]
    assert [row.names for row in rows] == [[f"layers.{number}"] for number in range(3)]
    assert [row.by for row in rows] == ["tuned", "tuned", "pytorch"]
    assert rows[0].shape == "float32 bias M=9 N=4 causal B=2 C=6 NWC"
    assert "tuner tune conv1d" in rows[2].reason
    y = model(x)
    assert torch.allclose(y, plain, atol=1e-6)
    assert [layer.used for layer in layers_of(model)] == ["tuned", "tuned"]
    assert [*model.state_dict()] == keys
    assert type(model.layers[0]).__name__ == "Mixer"
    model.layers[0].conv1d.weight.mul_(2)
    changed = model(x)
    restore_(model)
    assert [type(layer) for layer in model.layers] == [Mixer] * 3
    assert vars(model.layers[0]).keys() == vars(Mixer(6)).keys()
    assert torch.allclose(model(x), changed, atol=1e-6)
    assert not torch.allclose(changed, y, atol=1e-3)


def test_capture_lists_convolutions_called_as_functions(x: Any) -> None:
    """``capture`` lists the functions' convolutions as workloads, equal ones of two layers once."""
    first, narrow, wide = capture(Mamba().eval(), x)
    assert first.names == ["first"]
    assert (narrow.calls, narrow.names) == (2, ["layers.0", "layers.1"])
    fields: Any = narrow.workload
    assert (fields.mode, fields.layout, fields.bias, fields.activation) == (
        "causal", "NWC", True, "none",
    )  # fmt: skip
    assert (wide.calls, wide.names) == (1, ["layers.2"])


def test_capture_refuses_an_optimised_model(called: Local, x: Any) -> None:
    model = Mamba(Mixer(6)).eval()
    optimize_(model, x, source=called)
    with pytest.raises(WrongArgument, match="optimised already"):
        capture(model, x)
    assert optimize_(model, x, source=called).tuned == 1


def test_optimised_mixer_is_right_one_sample_at_a_time(called: Local, x: Any) -> None:
    model = Mixer(6).eval()
    plain = model(x)
    optimize_(model, x, source=called)
    state = torch.empty(2, 6, 3)
    parts = [model(x[:, :6], state)]
    parts += [model(x[:, at : at + 1], state) for at in range(6, 9)]
    assert torch.allclose(torch.cat(parts, 1), plain, atol=1e-6)


@torch.enable_grad()
def test_gradients_of_function_convolutions_equal_pytorchs(called: Local, x: Any) -> None:
    model = Mamba(Mixer(6)).eval()
    parameters = [*model.parameters()]
    plain = torch.autograd.grad(model(x).square().mean(), parameters)
    report = optimize_(model, x, source=called, mode="training")
    assert next(row.by for row in report.rows if row.names == ["layers.0"]) == "tuned"
    gradients = torch.autograd.grad(model(x).square().mean(), parameters)
    for ours, theirs in zip(gradients, plain, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    (layer,) = layers_of(model)
    assert layer.used == "tuned"


@pytest.mark.parametrize("when", ["before", "after"])
def test_compiled_graph_has_one_operator_for_each_function_convolution(
    called: Local, x: Any, when: str
) -> None:
    model, graphs = Mamba(Mixer(6), Mixer(6)).eval(), []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append([node.target for node in graph.graph.nodes])
        return graph

    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
    plain = compiled(x) if when == "before" else model(x)
    optimize_(model, x, source=called)
    assert torch.allclose(compiled(x), plain, atol=1e-6)
    assert graphs[-1].count(torch.ops.convtune.module) == 2
    assert [layer.used for layer in layers_of(model)] == ["tuned", "tuned"]


def test_compiled_graph_is_right_at_other_lengths(called: Local, x: Any) -> None:
    model, other = Mamba(Mixer(6)).eval(), torch.randn(2, 13, 4)
    plain = model(other)
    optimize_(model, x, source=called)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    compiled(x)
    assert torch.allclose(compiled(other), plain, atol=1e-6)


def filed(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))  # noqa: S301


@pytest.mark.parametrize("again", [deepcopy, filed])
def test_copied_or_pickled_model_computes_the_same(
    called: Local, x: Any, again: Callable[[Any], Any]
) -> None:
    model = Mamba(Mixer(6)).eval()
    optimize_(model, x, source=called)
    copy = again(model)
    assert torch.allclose(copy(x), model(x), atol=1e-6)
    assert type(copy.layers[0]) is type(model.layers[0])
    assert not {*layers_of(copy)} & {*layers_of(model)}
    restore_(copy)
    assert type(copy.layers[0]) is Mixer
    assert any(layers_of(model))


def test_convolution_among_many_functions_is_tuned_only_in_compiled_graphs(
    called: Local, x: Any
) -> None:
    model = Mamba(Mixer(6, functions=MANY)).eval()
    plain = model(x)
    report = optimize_(model, x, source=called)
    assert report.rows[1].by == "tuned"
    assert "torch.compile" in report.rows[1].apart
    (layer,) = layers_of(model)
    assert torch.allclose(model(x), plain, atol=1e-6)
    assert layer.used is None
    compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=False)
    assert torch.allclose(compiled(x), plain, atol=1e-6)
    assert layer.used == "tuned"


class Nested(nn.Module):
    """A module that calls a convolution as a function, and has a submodule that does too."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Mixer(4)
        self.weight = nn.Parameter(torch.randn(4, 1, 4))

    def forward(self, x: Any) -> Any:
        y = self.inner(x).mT
        return causal_conv1d(y, self.weight.squeeze(1), None).mT


class Owned(Mixer):
    """A mixer with a ``forward`` of its own, set on the instance."""

    def __init__(self) -> None:
        super().__init__(6)
        self.forward = super().forward  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("model", "name", "said"),
    [
        (Nested(), "the model", "contains another module"),
        (Owned(), "the model", "forward was replaced"),
    ],
)
def test_module_with_nested_convolutions_or_own_forward_stays_pytorchs(
    called: Local, model: Any, name: str, said: str
) -> None:
    rows = optimize_(model.eval(), torch.randn(2, 9, 4), source=called).rows
    (row,) = [row for row in rows if row.names == [name]]
    assert (row.by, said in row.reason) == ("pytorch", True)


def test_filter_fn_leaves_out_function_convolutions(called: Local, x: Any) -> None:
    report = optimize_(
        Mamba().eval(), x, source=called,
        filter_fn=lambda module, name: name.startswith("layers.1"),
    )  # fmt: skip
    assert [row.names for row in report.rows] == [["layers.1"]]


class Formed(nn.Module):
    """A model that computes ``call(x, weight)`` and nothing else."""

    def __init__(self, call: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.weight, self.call = nn.Parameter(torch.randn(4, 1, 3)), call

    def forward(self, x: Any) -> Any:
        return self.call(x, self.weight)


def whole_and_cut(x: Any, weight: Any) -> Any:
    y = functional.conv1d(x, weight, padding=2, groups=4)
    return y[..., : x.shape[-1]].sum() + y


FORMS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, Any]]] = {
    "cut": (
        lambda x, w: functional.conv1d(x, w, padding=2, groups=4)[..., : x.shape[-1]],
        {"mode": "causal"},
    ),
    "cut from behind": (
        lambda x, w: functional.conv1d(x, w, None, 1, (2,), 1, 4)[:, :, :-2],
        {"padding": (2, 2)},
    ),
    "padded before": (
        lambda x, w: functional.conv1d(functional.pad(x, (2, 0)), w, groups=4),
        {"padding": (0, 0), "M": 11},
    ),
    "whole and cut": (whole_and_cut, {"padding": (2, 2)}),
    "same": (
        lambda x, w: functional.conv1d(x, w, padding="same", dilation=2, groups=4),
        {"padding": (2, 2), "dilation": 2},
    ),
    "dense": (
        lambda x, w: functional.conv1d(x, w.expand(4, 4, 3).contiguous(), padding=1, stride=2),
        {"padding": (1, 1), "stride": 2, "groups": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("last", [False, True])
def test_layer_computes_each_form_of_function_convolution(
    called: Local, form: str, last: bool
) -> None:
    call, expected = FORMS[form]
    model = Formed(call).eval()
    x = torch.randn(2, 9, 4).mT if last else torch.randn(2, 4, 9)
    plain = model(x)
    layers, _ = survey(model, (x,), {}, Terms(called))
    (layer,) = layers
    (swap,) = swaps_of(model, layers)
    tuned: Any = layer.tuned
    (fields,) = tuned.wanted(layer.calls[0].input)
    assert {name: fields[name] for name in expected} == expected
    assert fields["layout"] == ("NWC" if last and form != "padded before" else "NCW")
    swap.apply()
    assert torch.equal(model(x), plain)
    assert tuned.used == "pytorch"
    swap.undo()
    assert type(model) is Formed


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 1, 3))

    def forward(self, x: Any, scale: float = 2.0) -> Any:
        return functional.conv1d(x, self.weight, padding=1, groups=4) * scale


def test_replaced_forward_keeps_its_signature(called: Local) -> None:
    model, x = Scaled().eval(), torch.randn(2, 4, 9)
    plain, signature = model(x), inspect.signature(model.forward)
    (swap,) = swaps_of(model, survey(model, (x,), {}, Terms(called))[0])
    swap.apply()
    assert inspect.signature(model.forward) == signature
    assert torch.equal(torch.fx.symbolic_trace(model)(x), plain)
    batch = {"x": {0: torch.export.Dim("batch")}}
    assert torch.equal(torch.export.export(model, (x,), dynamic_shapes=batch).module()(x), plain)
    swap.undo()


class Several(nn.Module):
    """A model with four convolutions: two that no operator covers (``dense`` and the first
    function), one that a module calls itself (``deep``), and a function that an operator covers."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.deep = nn.Conv2d(4, 6, 3), nn.Conv2d(6, 6, 3, groups=6)
        self.weight = nn.Parameter(torch.randn(6, 6, 1, 1))

    def forward(self, x: Any) -> Any:
        y = functional.conv2d(self.deep(self.dense(x)), self.weight)
        return functional.conv2d(y, self.weight[:, :1], groups=6)


def test_report_names_only_convolutions_that_an_operator_covers(called: Local) -> None:
    report = optimize_(Several().eval(), torch.randn(1, 4, 9, 9), source=called)
    assert [(row.names, row.operator) for row in report.rows] == [
        (["deep"], "depthwise_conv2d"),
        (["the model"], "depthwise_conv2d"),
    ]


def test_capture_works_after_a_failed_call(x: Any) -> None:
    model = Mamba().eval()
    with pytest.raises(RuntimeError):
        capture(model, torch.randn(1, 9, 5))
    assert len(capture(model, x)) == 3


def test_autocast_chooses_dtype_of_function_convolutions(called: Local, x: Any) -> None:
    model = Mamba(Mixer(6)).eval()
    with torch.autocast("cpu", torch.bfloat16):
        _, layer = capture(model, x)
        workload: Any = layer.workload
        assert workload.dtype == "bfloat16"
    plain = model(x)
    optimize_(model, x, source=called)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(model(x).float(), plain, atol=0.05)
