"""If an optimised model is changed (hooks, other modules, weights), it computes what the original
model computes after the same change."""

import copy
import gc
import io
from collections.abc import Callable
from typing import Any

import pytest

from tuner.client.local import Local
from tuner.errors import WrongArgument

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from models import Block, close, outputs, usual  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations, parametrize, prune  # noqa: E402

from tuner.torch import fused_modules, optimize_, restore_  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:::torch"),  # PyTorch warns of its own deprecated functions
]


class Adapted(nn.Module):
    """An adapter: the output of a trained layer plus that of a second one, as in LoRA."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base_layer = base
        torch.manual_seed(5)
        self.beside = nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.base_layer(x) + self.beside(x)


class Halved(nn.Module):
    def forward(self, weight: Any) -> Any:
        return weight / 2


def doubles(module: Any, given: Any, output: Any) -> Any:
    return 2 * output


def negates(module: Any, given: Any) -> Any:
    return (-given[0],)


def replaces(name: str, made: Callable[[Any], Any]) -> Callable[[Any], object]:
    return lambda model: setattr(model, name, made(getattr(model, name)))


def puts_into_the_norm(name: str) -> Callable[[Any], object]:
    return lambda model: setattr(model.both, name, nn.Tanh())


TAKEN_IN: dict[str, Callable[[Any], object]] = {
    "a hook on the layer": lambda model: model.conv.register_forward_hook(doubles),
    "a hook on the norm": lambda model: model.bn.register_forward_hook(doubles),
    "a hook before the norm": lambda model: model.bn.register_forward_pre_hook(negates),
    "a hook before the activation": lambda model: model.act.register_forward_pre_hook(negates),
    "a hook on what passes": lambda model: model.same.register_forward_hook(doubles),
    "another norm": replaces("bn", lambda _: nn.InstanceNorm2d(6)),
    "another activation": replaces("act", lambda _: nn.Tanh()),
    "something that passes no more": replaces("same", lambda _: nn.Tanh()),
    "an adapter": replaces("conv", Adapted),
    "an adapter of the norm": replaces("bn", lambda bn: nn.Sequential(bn, nn.Tanh())),
    "another limit": lambda model: setattr(model.act, "max_val", 1.0),
    "a forward of its own": lambda model: setattr(model.act, "forward", torch.tanh),
}
"""Changes after which a layer must not compute the norm and activation that its kernel took in."""


def passes(block: Block, y: Any) -> Any:
    return block.act(block.same(block.bn(y)))


def changed(change: Callable[[Any], object], call: Any = passes) -> tuple[Any, Any]:
    """Return a new model, and a copy of it to which ``change`` was applied: the reference."""
    model = Block(call).eval()
    model.conv.bias = nn.Parameter(torch.randn(6))
    plain = copy.deepcopy(model)
    change(plain)
    return model, plain


@pytest.mark.parametrize("change", TAKEN_IN.values(), ids=TAKEN_IN)
def test_norm_and_activation_compute_again_if_the_model_is_changed(
    source: Local, x: Any, change: Callable[[Any], object]
) -> None:
    """After each change, the modules that a layer took in compute again; a warning says so once."""
    model, plain = changed(change)
    optimize_(model, x, source=source)
    layer = model.conv
    change(model)
    with pytest.warns(UserWarning, match=r"computes only its convolution now: .*optimize_ again"):
        y = outputs(model, x)
    assert close(y, outputs(plain, x))
    assert layer.used == "tuned"
    assert close(outputs(model, x), y)  # it warns once: a second warning would be an error


def test_warning_does_not_name_a_harmless_hook(source: Local, x: Any) -> None:
    model, plain = changed(TAKEN_IN["another activation"])
    optimize_(model, x, source=source)
    model.conv.register_forward_pre_hook(lambda module, given: None)
    TAKEN_IN["another activation"](model)
    with pytest.warns(UserWarning, match="another module stands in the place of act"):
        assert close(outputs(model, x), outputs(plain, x))


@pytest.mark.parametrize("change", [puts_into_the_norm("act"), puts_into_the_norm("drop")])
def test_norm_computes_again_if_its_inner_module_is_replaced(
    source: Local, x: Any, change: Callable[[Any], object]
) -> None:
    """If an inner module of a norm with an activation is replaced, the norm computes again, too."""
    model, plain = changed(change, lambda block, y: block.both(y))
    optimize_(model, x, source=source)
    change(model)
    with pytest.warns(UserWarning, match="another module stands in the place of (act|drop)"):
        assert close(outputs(model, x), outputs(plain, x))


def through_a_file(model: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize(
    "made", [lambda conv: nn.Conv2d(6, 6, 5, padding=2), lambda conv: nn.Tanh()]
)
@pytest.mark.parametrize("copied", [lambda model: model, copy.deepcopy, through_a_file])
def test_norm_and_activation_compute_again_if_the_tuned_layer_is_replaced(
    source: Local, x: Any, made: Callable[[Any], Any], copied: Callable[[Any], Any]
) -> None:
    """If the tuned layer itself is replaced, the modules that it took in compute again."""

    def change(model: Any) -> None:
        torch.manual_seed(7)
        model.conv = made(model.conv)

    model, plain = changed(change)
    expected = outputs(model, x)
    report = optimize_(model, x, source=source)  # the report keeps a reference to the layer
    model = copied(model)
    assert close(outputs(model, x), expected)
    change(model)
    assert report.tuned
    assert close(outputs(model, x), outputs(plain, x))
    del report
    model = copied(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert close(outputs(compiled, x), outputs(plain, x))
    torch.compiler.reset()


def test_copied_part_of_a_model_computes_only_itself(source: Local, x: Any) -> None:
    model, own = Block(usual).eval(), Block(usual).eval()
    optimize_(model, x, source=source)
    taken = model.first(x).detach()
    for name in ("conv", "bn", "act"):
        part = copy.deepcopy(getattr(model, name))
        assert close(outputs(part, taken), outputs(getattr(own, name), taken)), name
    assert close(outputs(model, x), outputs(own, x))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_a_file])
def test_change_of_a_copied_model_counts_for_the_copy_only(
    source: Local, x: Any, copied: Callable[[Any], Any]
) -> None:
    """If a copy of the model is changed, its modules compute again; the original stays as it is."""
    change = TAKEN_IN["another norm"]
    model, plain = changed(change)
    expected = outputs(model, x)
    optimize_(model, x, source=source)
    other = copied(model)
    change(other)
    with pytest.warns(UserWarning, match="stands in the place of bn"):
        assert close(outputs(other, x), outputs(plain, x))
    assert close(outputs(model, x), expected)
    assert model.conv.used == "tuned"


def test_data_parallel_replica_is_not_taken_for_a_replaced_module(source: Local, x: Any) -> None:
    """torch.nn.DataParallel makes replicas, one for each GPU, which are no part of the model. They
    must not be taken for other modules in the places of the model's own."""
    model, plain = changed(lambda model: None)
    optimize_(model, x, source=source)
    taken = model.first(x).detach()
    replica = model.conv._replicate_for_data_parallel()
    replica.weight, replica.bias = model.conv.weight, model.conv.bias
    y = outputs(replica, taken)
    assert close(y, outputs(plain, x))
    assert close(outputs(model, x), y)


def test_gradients_follow_a_hook_added_to_the_activation(trained: Local, x: Any) -> None:
    def change(model: Any) -> None:
        model.act.register_forward_hook(doubles)

    model, plain = changed(change, lambda block, y: block.act(y))
    optimize_(model, x, source=trained, mode="training")
    change(model)
    with pytest.warns(UserWarning, match="act has hooks"):
        y = model(x)
    for output in (y, plain(x)):
        output.square().sum().backward()
    for name, parameter in plain.named_parameters():
        found = model.get_parameter(name).grad
        assert (found is None) == (parameter.grad is None)
        if found is not None:
            torch.testing.assert_close(found, parameter.grad, atol=1e-3, rtol=1e-3)


def broken_before_the_norm(block: Block, y: Any) -> Any:
    torch._dynamo.graph_break()
    return passes(block, y)


SEEN_BY_GRAPHS = [name for name in TAKEN_IN if not name.startswith("a hook")]
BROKEN = [name for name in SEEN_BY_GRAPHS if name != "a forward of its own"]


@pytest.mark.parametrize(
    ("change", "call"),
    [
        *((change, passes) for change in SEEN_BY_GRAPHS),
        *((change, broken_before_the_norm) for change in BROKEN),
    ],
)
def test_compiled_graph_sees_a_change_of_the_model(
    source: Local, x: Any, change: str, call: Callable[[Block, Any], Any]
) -> None:
    """Graphs see a change even if the layer and the modules taken in are in different graphs."""
    model, plain = changed(TAKEN_IN[change], call)
    before = copy.deepcopy(model)
    optimize_(model, x, source=source)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        assert close(outputs(compiled, x), outputs(before, x))
    assert model.conv.used == "tuned"
    TAKEN_IN[change](model)
    with pytest.warns(UserWarning, match="computes only its convolution now"):
        assert close(outputs(compiled, x), outputs(plain, x))
    assert close(outputs(compiled, x), outputs(plain, x))
    torch.compiler.reset()


def test_compiled_graph_sees_a_replaced_inner_module_of_a_norm(source: Local, x: Any) -> None:
    change = puts_into_the_norm("act")
    model, plain = changed(change, lambda block, y: block.both(y))
    optimize_(model, x, source=source)
    compiled = torch.compile(model, backend="aot_eager")
    outputs(compiled, x)
    change(model)
    with pytest.warns(UserWarning, match="stands in the place of act"):
        assert close(outputs(compiled, x), outputs(plain, x))
    torch.compiler.reset()


def test_fullgraph_error_after_a_change_says_to_call_optimize_again(source: Local, x: Any) -> None:
    model, _ = changed(lambda model: None)
    optimize_(model, x, source=source)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    outputs(compiled, x)
    TAKEN_IN["another activation"](model)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="call optimize_ again"):
        outputs(compiled, x)
    torch.compiler.reset()


def test_deleted_model_is_no_longer_watched(source: Local, x: Any) -> None:
    model, _ = changed(lambda model: None)
    optimize_(model, x, source=source)
    watched = id(model)
    assert watched in fused_modules._watching
    del model
    gc.collect()
    assert watched not in fused_modules._watching


def test_graph_compiled_with_freezing_calls_the_tuned_layer(source: Local, x: Any) -> None:
    model, own = Block(usual).eval(), Block(usual).eval()
    optimize_(model, x, source=source)
    frozen = torch.compile(model, options={"freezing": True}, fullgraph=True)
    with torch.no_grad():
        assert close(frozen(x), outputs(own, x))
        assert close(frozen(2 * x), outputs(own, 2 * x))
    assert model.conv.used == "tuned"
    torch.compiler.reset()


@pytest.mark.parametrize(
    "change",
    [
        lambda conv: parametrize.register_parametrization(conv, "weight", Halved()),
        parametrizations.weight_norm,
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda conv: prune.l1_unstructured(conv, "weight", 0.5),
        lambda conv: setattr(conv, "weight", nn.Parameter(torch.ones(6, 1, 3, 3))),
        lambda conv: conv.register_forward_hook(doubles),
    ],
    ids=["parametrised", "weight norm", "old weight norm", "old spectral norm", "pruned", "tied",
         "hooked"],
)  # fmt: skip
def test_change_of_a_tuned_layer_counts_and_survives_restore(
    source: Local, x: Any, change: Callable[[Any], object]
) -> None:
    def on_the_layer(model: Any) -> None:
        torch.manual_seed(6)
        change(model.conv)

    model, plain = changed(on_the_layer, lambda block, y: y)
    optimize_(model, x, source=source)
    on_the_layer(model)
    expected = outputs(plain, x)
    assert close(outputs(model, x), expected)
    assert model.conv.used == "tuned"
    assert model.state_dict().keys() == plain.state_dict().keys()
    restore_(model)
    assert isinstance(model.conv, nn.Conv2d)
    assert close(outputs(model, x), expected)
    assert model.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("taken", ["bn", "both"])
def test_norm_without_running_statistics_normalises_by_each_batch(
    source: Local, x: Any, taken: str
) -> None:
    """Methods that adapt a model to its test data remove the norms' running statistics. A norm then
    normalises by each batch, so the layer must not keep it folded in."""

    def forget(model: Any) -> None:
        norm = getattr(model, taken)
        norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None

    model, plain = changed(forget, lambda block, y: getattr(block, taken)(y))
    optimize_(model, x, source=source)
    forget(model)
    assert close(outputs(model, x), outputs(plain, x))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert close(outputs(compiled, x), outputs(plain, x))
    torch.compiler.reset()


@pytest.mark.parametrize("shape", [(6, 1, 1, 9), (6, 1, 5, 5)], ids=["as large", "larger"])
def test_pytorch_computes_with_a_weight_of_another_shape(
    source: Local, x: Any, shape: tuple[int, ...]
) -> None:
    model, plain = changed(lambda model: None)
    optimize_(model, x, source=source)
    assert close(outputs(model, x), outputs(plain, x))
    weight = torch.randn(shape)
    for each in (model, plain):
        each.conv.weight = nn.Parameter(weight.clone())
    assert close(outputs(model, x), outputs(plain, x))
    assert (model.conv.used, model.conv.reason) == (
        "pytorch",
        f"the weight has shape {shape}, and the layer was made for (6, 1, 3, 3)",
    )


def test_tuned_layer_refuses_a_new_stride(source: Local, x: Any) -> None:
    model = Block(usual).eval()
    optimize_(model, x, source=source)
    model.conv.padding = (1, 1)  # the value that it has already
    with pytest.raises(WrongArgument, match=r"stride .* is \(1, 1\), .*: call restore_ on"):
        model.conv.stride = (2, 2)
    assert model.conv.stride == (1, 1)
    restore_(model)
    model.conv.stride = (2, 2)


def test_parameters_written_by_a_fused_optimiser_are_folded(source: Local, x: Any) -> None:
    """Other changes are noticed by a tensor's version. A fused optimiser changes parameters, but
    not their versions."""
    model, own = Block(usual).eval(), Block(usual).eval()
    optimize_(model, x, source=source)
    before = outputs(model, x)
    for each in (model, own):
        each(x).square().mean().backward()
        torch.optim.SGD(each.parameters(), lr=0.1, fused=True).step()
    assert close(outputs(model, x), outputs(own, x))
    assert model.conv.used == "tuned"
    assert not close(before, outputs(model, x))
