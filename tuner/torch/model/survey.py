"""Survey of a model: the layers that an operator can compute, and what each layer can take in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal, get_args

from torch import nn
from torch.nn.parameter import is_lazy

from templates.dtypes import MAX_ERROR_RANGE
from templates.epilogue import Activation
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.torch.functional import activations
from tuner.torch.functional.folding import BatchNorm
from tuner.torch.gated import GatedConv1d
from tuner.torch.gradients import at_once
from tuner.torch.lookup.workload_lookup import Purpose
from tuner.torch.model.flow.cuts import note_cuts
from tuner.torch.model.flow.dataflow import HEAD, ConvolutionCall, Dataflow, record_dataflow, run
from tuner.torch.model.flow.functions import MANY, FunctionCall
from tuner.torch.modules import Conv1d, DepthwiseConv2d
from tuner.torch.replaced import hooks_of
from tuner.torch.tuned_module import Tuned

FUSE = ("bn", "bias", "act", "cut", "gate")
"""The parts that a kernel may take in: a batch norm, the bias, an activation, the cut that leaves
one output for each sample, and the gates before and behind a convolution that is called as a
function."""

Mode = Literal["inference", "training"]
"""The use for which a model is optimised."""
Filter = Callable[[nn.Module, str], bool]


@dataclass
class ModelLayer:
    """A convolution of a model, or one that a module of the model calls as a function.

    ``tuned`` is the layer that can take its place, and ``fused`` has the modules behind it that
    this layer takes in. If ``tuned`` is None, ``reason`` says why. If ``only_compiled``, ``tuned``
    takes the place in compiled graphs alone. ``names`` are the convolution's names in the model,
    and ``calls`` its calls in one call of the model.
    """

    convolution: nn.Module | FunctionCall
    names: list[str]
    calls: list[ConvolutionCall]
    tuned: Tuned | None = None
    reason: str = ""
    fused: list[nn.Module] = field(default_factory=list)
    only_compiled: bool = False

    @property
    def apart(self) -> str:
        """The reason why ``tuned`` is not called in eager mode or takes in no more, or an empty
        string."""
        if self.only_compiled:
            return (
                f"{self.names[0]} calls so many functions that watching for this one in eager mode "
                "could take longer than its kernel saves; only torch.compile uses the kernel"
            )
        if self.is_gated:
            return (
                "this row includes the gates: only graphs of torch.compile call its kernel, in "
                "place of the kernel in the row without gates"
            )
        return next((call.apart for call in self.calls if call.apart), "")

    @property
    def module(self) -> nn.Module:
        """The convolution; for a function, a module that would compute the same."""
        called = self.convolution
        return called.module if isinstance(called, FunctionCall) else called

    @property
    def is_gated(self) -> bool:
        """Whether it is the convolution together with the gates around it."""
        return isinstance(self.convolution, FunctionCall) and self.convolution.gated

    @property
    def operator(self) -> str:
        return _kind(self.module).operator

    def purposes(self, call: ConvolutionCall, mode: Mode, apart: bool = False) -> list[Purpose]:
        """Return what kernels may compute for a call.

        That is the output, and in mode "training" the gradients that are needed. If input and
        weight both need a gradient, this is one workload of all gradients if there is one, unless
        ``apart``. Otherwise the gradients also need the sums, if the activation's derivative can't
        be told from the output.
        """
        if mode == "inference" or self.tuned is None:
            return ["forward"]
        called = self.convolution
        owner = called.within if isinstance(called, FunctionCall) else called
        is_trained = any(each.requires_grad for each in owner.parameters())
        if call.needs_grad and is_trained and not apart:
            tuned = self.tuned
            wanted = tuned.wanted(call.input, purpose="backward")
            if at_once.is_ordered(tuned.operator, wanted, tuned.activation):
                return ["forward", "backward"]
        needs_sums = activations.of_sums(self.tuned.activation)
        several: list[tuple[Purpose, bool]] = [
            ("forward", True),
            ("sums", needs_sums and (call.needs_grad or is_trained)),
            ("backward_input", call.needs_grad),
            ("backward_weight", is_trained),
        ]
        return [purpose for purpose, is_needed in several if is_needed]

    @property
    def shapes(self) -> Iterator[tuple[ConvolutionCall, int]]:
        """One call for each different input, and the number of calls with such an input.

        Inputs differ in shape, strides, dtype, device, or whether they need grad.
        """
        found: dict[Any, list[ConvolutionCall]] = {}
        for call in self.calls:
            x = call.input
            key = x.shape, x.stride(), x.dtype, call.device, call.needs_grad
            found.setdefault(key, []).append(call)
        for alike in found.values():
            yield alike[0], len(alike)


@dataclass(frozen=True)
class Terms:
    """The terms on which layers of a model are replaced. Raises WrongArgument for wrong ones.

    The fields are arguments of :func:`~tuner.torch.optimize_`; ``source`` is None for a survey that
    looks nothing up.
    """

    source: Source | None
    fuse: Collection[str] = FUSE
    filter_fn: Filter | None = None
    max_error: float | None = None
    mode: Mode = "inference"

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            known = ", ".join(map(repr, get_args(Mode)))
            raise WrongArgument(f"mode is {self.mode!r}, and must be one of {known}")
        several = isinstance(self.fuse, Collection) and not isinstance(self.fuse, str)
        if not several or any(each not in FUSE for each in self.fuse):
            raise WrongArgument(
                f"fuse is {self.fuse!r}, and must be a collection with some of "
                f"{', '.join(map(repr, FUSE))}"
            )
        if self.filter_fn is not None and not callable(self.filter_fn):
            raise WrongArgument(
                f"filter_fn is a {type(self.filter_fn).__name__}, and must be a function that is "
                "called as filter_fn(module, name)"
            )
        least, most = MAX_ERROR_RANGE
        number = self.max_error
        if number is not None and not (isinstance(number, Real) and least <= number <= most):
            raise WrongArgument(f"max_error is {number}, and must be from {least} to {most}")
        if number is not None:  # a workload refuses NumPy's numbers
            object.__setattr__(self, "max_error", float(number))


def survey(
    model: nn.Module, given: tuple[Any, ...], named: dict[str, Any], terms: Terms
) -> tuple[list[ModelLayer], Any]:
    """Return the layers that one call of the model calls, in order, and the call's output.

    The model is called in evaluation mode on ``given`` by position and ``named`` by name. The
    output is the list of its tensors.
    """
    if any(map(is_lazy, model.parameters())):
        run(model, given, named)  # gives them their shapes
    flow = record_dataflow(model, given, named, is_operator, with_grad=terms.mode == "training")
    note_cuts(flow, model, given, named, is_operator)
    layers = _layers(model, terms, flow)
    return [layers[each] for each in flow.calls if each in layers], flow.output


def uncalled(model: nn.Module, terms: Terms) -> list[ModelLayer]:
    """Return all layers of a model, without any calls, because the model is not called."""
    return list(_layers(model, terms, Dataflow()).values())


def is_operator(module: nn.Module) -> bool:
    """Return whether the module is a conv1d or a depthwise conv2d, whatever its other fields."""
    depthwise = isinstance(module, nn.Conv2d) and module.groups == module.in_channels > 1
    return depthwise or isinstance(module, nn.Conv1d)


def _kind(convolution: nn.Module) -> type[Conv1d | DepthwiseConv2d]:
    return Conv1d if isinstance(convolution, nn.Conv1d) else DepthwiseConv2d


def _layers(
    model: nn.Module, terms: Terms, flow: Dataflow
) -> dict[nn.Module | FunctionCall, ModelLayer]:
    """Return the model's layers by their convolutions, but not those that ``filter_fn`` refuses."""
    functions: dict[nn.Module, list[FunctionCall]] = {}
    takes_gates = {"gate", "cut"} <= {*terms.fuse} and terms.mode == "inference"
    for each in flow.calls:
        if isinstance(each, FunctionCall) and (not each.gated or takes_gates):
            functions.setdefault(each.within, []).append(each)
    named: dict[nn.Module | FunctionCall, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if terms.filter_fn is not None and not terms.filter_fn(module, name):
            continue
        if is_operator(module):
            named.setdefault(module, []).append(name)
        for function in functions.get(module, []):
            named.setdefault(function, []).append(name or "the model")
    layers = {
        module: _layer(model, ModelLayer(module, names, flow.calls.get(module, [])), terms, flow)
        for module, names in named.items()
    }
    return {module: layer for module, layer in layers.items() if _takes_gates(module, layers)}


def _takes_gates(
    module: nn.Module | FunctionCall, layers: dict[nn.Module | FunctionCall, ModelLayer]
) -> bool:
    """Return whether a layer stays in the list. A layer without gates stays.

    A layer with gates stays unless the layer of the same call without gates computes other outputs.
    In that case the model also uses these outputs apart from the gates.
    """
    if not isinstance(module, FunctionCall) or not module.gated:
        return True
    gated, ungated = layers[module].tuned, layers[replace(module, gated=False)].tuned
    both = isinstance(gated, GatedConv1d) and isinstance(ungated, Conv1d)
    return both and gated.mode == ungated.mode  # type: ignore[union-attr]


def pair_gates(layers: list[ModelLayer]) -> None:
    """Give each layer with gates the layer of the same call without gates, if there is one.

    The layer without gates computes shapes for which only its own workload is tuned.
    """
    tuned = {layer.convolution: layer.tuned for layer in layers}
    for called, layer in tuned.items():
        if isinstance(called, FunctionCall) and isinstance(layer, GatedConv1d):
            ungated = tuned.get(replace(called, gated=False))
            same = isinstance(ungated, Conv1d) and ungated.mode == layer.mode
            layer.ungated = (ungated,) if same else ()  # type: ignore[assignment]


def _layer(model: nn.Module, layer: ModelLayer, terms: Terms, flow: Dataflow) -> ModelLayer:
    convolution, fuse = layer.module, set(terms.fuse)
    kind = GatedConv1d if layer.is_gated else _kind(convolution)
    if isinstance(layer.convolution, FunctionCall):
        fuse &= {"cut"}  # modules behind it must compute for the function's other calls, too
        within = layer.convolution.within
        layer.reason = _why_ambiguous(layer.operator, within, flow)
        layer.only_compiled = flow.functions[within] > MANY * _calls(within, flow)
    elif layer.names == [""]:
        layer.reason = f"it is the model itself; replace it with {kind.__name__}.of"
    if layer.reason:
        return layer
    try:
        source: Any = terms.source
        layer.tuned = kind.of(convolution, source=source, max_error=terms.max_error)
    except WrongArgument as error:
        layer.reason = str(error).replace(f"{convolution} ", "it ", 1)
        return layer
    layer.tuned.bias_in_kernel = "bias" in terms.fuse
    # a norm in training mode normalises by the batch, so it can't be folded
    fuse -= {"bn"} if terms.mode == "training" else set()
    norm, activation, layer.fused = _behind(layer, fuse, flow)
    if layer.fused and any(map(hooks_of, modules_around(model, layer))):
        layer.calls[0].apart = "it takes in no module: hooks of a module around it would see that"
        norm, activation, layer.fused = None, "none", []
    layer.tuned.fuse(norm, activation)
    return layer


def passed_modules(layer: ModelLayer) -> list[nn.Module]:
    """Return the modules from behind the convolution to the last that the layer takes in."""
    behind = layer.calls[0].behind if layer.calls else []
    last = behind.index(layer.fused[-1]) + 1 if layer.fused else 0
    return [each for each in behind[:last] if each is not HEAD]


def modules_around(model: nn.Module, layer: ModelLayer) -> list[nn.Module]:
    """Return the model's modules that hold some, but not all, of the convolution and its
    ``passed_modules``, and are none of these themselves."""
    passed = {layer.convolution, *passed_modules(layer)}
    held: dict[nn.Module, set[Any]] = {}

    def held_by(module: nn.Module) -> set[Any]:
        if module not in held:
            held[module] = {module} & passed
            held[module].update(*map(held_by, module.children()))
        return held[module]

    held_by(model)
    return [
        each for each, some in held.items() if each not in passed and 0 < len(some) < len(passed)
    ]


def _calls(within: nn.Module, flow: Dataflow) -> int:
    """Return how often that module called functions that convolve."""
    return sum(
        len(calls)
        for each, calls in flow.calls.items()
        if isinstance(each, FunctionCall) and each.within is within and not each.gated
    )


def _why_ambiguous(operator: str, within: nn.Module, flow: Dataflow) -> str:
    """Return why a convolution called as a function can't be told from others, or an empty string.

    Calls are told apart by the signature alone, so no other module inside ``within`` may convolve.
    """
    if "forward" in vars(within):
        return "it is a call of a function, in a module whose forward was replaced"
    inside = set(within.modules())
    for each in flow.calls:
        caller = each.within if isinstance(each, FunctionCall) else each
        if caller in inside and caller is not within:
            return (
                "it is a call of a function, in a module that contains another module that "
                f"convolves; call torch.ops.convtune.{operator} there"
            )
    return ""


def _behind(
    layer: ModelLayer, fuse: Collection[str], flow: Dataflow
) -> tuple[BatchNorm | None, Activation, list[nn.Module]]:
    """Return the batch norm and activation that the layer can take in, and all modules it passes.

    If the model uses only as many outputs as there are samples, the layer is made causal if
    ``fuse`` and the layer's form allow it.
    """
    norm: BatchNorm | None = None
    fused: list[nn.Module] = []
    behind = layer.calls[0].behind if layer.calls else []
    if any(call.behind != behind for call in layer.calls):
        return None, "none", []
    for module in behind:
        if module is HEAD:
            lengths = {call.input.shape[-1] for call in layer.calls}
            always = layer.convolution in flow.cut_at_any_length
            if (
                "cut" not in fuse
                or not isinstance(layer.tuned, Conv1d)
                or not layer.tuned.make_causal(() if always else lengths)
            ):
                break
            continue
        if flow.times[module] != len(layer.calls) or hooks_of(module) or "forward" in vars(module):
            break
        applied = activations.of(module)
        if applied == "none":
            continue
        if applied is None:
            applied = _of_norm(module, layer)
            if norm is not None or applied is None or "bn" not in fuse:
                break
            if applied != "none" and "act" not in fuse:
                break
            if any(call.is_cast for call in layer.calls):  # folding works in the norm's dtype
                kind = type(module).__name__
                layer.calls[0].apart = f"{kind} stays, because the layer is called under autocast"
                break
            norm = BatchNorm(module)
        elif "act" not in fuse:
            break
        fused.append(module)
        if applied != "none":
            return norm, applied, fused
    return norm, "none", fused


def _of_norm(module: Any, layer: ModelLayer) -> Activation | None:
    """Return the activation that a batch norm applies itself, or None if it can't be folded.

    timm's BatchNormAct2d applies one, and PyTorch's batch norms apply "none".
    """
    if module.running_mean is None or module.num_features != layer.module.out_channels:
        return None
    batched = 4 if isinstance(module, nn.BatchNorm2d) else 3
    if any(call.input.ndim != batched for call in layer.calls):
        return None  # BatchNorm1d takes the channels of a signal without a batch for the batch
    if type(module) in (nn.BatchNorm1d, nn.BatchNorm2d):
        return "none"
    if type(module).__name__ != "BatchNormAct2d" or type(module.drop) is not nn.Identity:
        return None
    return None if hooks_of(module.act) else activations.of(module.act)
