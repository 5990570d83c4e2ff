"""Count the convolutions that a call of a model computes, and those that convtune can take."""

from __future__ import annotations

import gc
import signal
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

import templates
from tests.benchmarks.census.models import Absent, Model
from tests.benchmarks.census.page import NAMES

TRANSPOSED = "transposed conv1d"
SECONDS = 60
"""A model that takes longer than this is left out."""
MOST_PARAMETERS = 400_000_000
"""The most parameters of a model that is built on the CPU if it can't be called on the meta
device."""


@dataclass(frozen=True, order=True)
class Layer:
    """A convolution and the shape of its input, with PyTorch's names of the parameters.

    ``padding`` is the number of zeros on each side: (left, right), or (top, left, bottom, right).
    """

    operator: str
    input: tuple[int, ...]
    out_channels: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    padding_mode: str = "zeros"

    def __str__(self) -> str:
        said = [f"{'×'.join(map(str, self.input))} to {self.out_channels} channels"]
        said.append(f"kernel {'×'.join(map(str, self.kernel))}")
        for name, usual in (("stride", 1), ("dilation", 1), ("padding", 0)):
            values = getattr(self, name)
            if set(values) != {usual}:
                alike = len(set(values)) == 1
                said.append(f"{name} {values[0] if alike else ','.join(map(str, values))}")
        if self.groups > 1:
            said.append(f"groups {self.groups}")
        return ", ".join(said)


@dataclass
class Census:
    """The layers that were found and the models that were called.

    ``layers`` maps a layer to the names of the models that have it. ``refused`` maps a layer that
    ``tuner.torch.modules`` refuses to the reasons. ``on_cpu`` names the models that were called on
    the CPU. ``skipped`` has the reason for each model that was left out, and ``uncalled`` the
    number of each model's convolutions that its call did not reach.
    """

    layers: dict[Layer, set[str]] = field(default_factory=lambda: defaultdict(set))
    refused: dict[Layer, set[str]] = field(default_factory=lambda: defaultdict(set))
    models: list[str] = field(default_factory=list)
    on_cpu: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    uncalled: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, module: Any, inputs: dict[str, Any]) -> None:
        """Call the module once and count its convolutions. Raise what the call raises."""
        found = called(module, inputs)
        self.models.append(name)
        for convolution, layer, itself in found:
            self.layers[layer].add(name)
            reason = refusal(convolution, layer) if itself else "is not called, its weight used"
            if reason is not None:
                self.refused[layer].add(reason)
        seen = {id(convolution) for convolution, _, _ in found}
        left = (each for each in module.modules() if id(each) not in seen)
        self.uncalled[name] = sum(operator_of(each) is not None for each in left)

    def of(self, operator: str) -> list[Layer]:
        """Return the layers of an operator, sorted."""
        return sorted(layer for layer in self.layers if layer.operator == operator)


def operator_of(module: Any) -> str | None:
    """Return the operator under which a module is counted, or None.

    The module need not be a workload of the operator.
    """
    from torch import nn

    if isinstance(module, nn.ConvTranspose1d):
        return TRANSPOSED
    if isinstance(module, nn.Conv1d):
        return "conv1d"
    if isinstance(module, nn.Conv2d) and module.groups == module.in_channels:
        return "depthwise_conv2d"
    return None


def called(module: Any, inputs: dict[str, Any]) -> list[tuple[Any, Layer, bool]]:
    """Call a module and return the convolutions that the call used, once for each input shape.

    Each is (convolution, layer, whether it was called itself). A convolution that is not called
    itself counts if ``torch.conv1d`` or ``conv2d`` is called on its weight.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    found: dict[tuple[int, Layer], tuple[Any, Layer, bool]] = {}
    own = {id(each) for each in module.modules() if operator_of(each) is not None}
    entered = set()

    def note(each: Any, given: tuple[Any, ...]) -> None:
        if id(each) in own and given:
            entered.add(id(each))
            layer = layer_of(each, given[0].shape)
            found[id(each), layer] = each, layer, True

    owners = {
        each._parameters["weight"].untyped_storage()._cdata: each
        for each in module.modules()
        if id(each) in own and each._parameters.get("weight") is not None
    }

    class Uses(TorchFunctionMode):  # type: ignore[misc]  # PyTorch is not there for mypy
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in (torch.conv1d, torch.conv2d):
                names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
                said = dict(zip(names, args, strict=False)) | (kwargs or {})
                each = owners.get(said["weight"].untyped_storage()._cdata)
                if each is not None and id(each) not in entered:
                    layer = layer_of(each, said["input"].shape, said.get("padding", 0))
                    found[id(each), layer] = each, layer, False
            return func(*args, **(kwargs or {}))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        with torch.inference_mode(), warnings.catch_warnings(), Uses():
            warnings.simplefilter("ignore")
            module.eval()(**inputs)
    finally:
        hook.remove()
    return list(found.values())


def layer_of(module: Any, shape: Iterable[int], padding: Any = None) -> Layer:
    """Return the layer of a convolution for an input of this shape, with its own or the given
    padding."""
    given = tuple(map(int, shape))
    axes = len(module.kernel_size)
    given = given if len(given) == axes + 2 else (1, *given)
    own = module.padding if padding is None else padding
    return Layer(
        str(operator_of(module)),
        given,
        module.out_channels,
        tuple(module.kernel_size),
        tuple(module.stride),
        _zeros_of(module, (own,) * axes if isinstance(own, int) else own, given[2:]),
        tuple(module.dilation),
        module.groups,
        module.padding_mode,
    )


def _zeros_of(module: Any, padding: Any, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of zeros before each axis, then those behind each axis.

    Classes whose names end in ``Same``, timm's Conv2dSame for example, pad by their input's extent,
    as TensorFlow does.
    """
    totals = []
    for axis, extent in enumerate(extents):
        step, reach = module.stride[axis], module.dilation[axis] * (module.kernel_size[axis] - 1)
        if type(module).__name__.endswith("Same"):
            totals.append(max((-(-extent // step) - 1) * step + reach + 1 - extent, 0))
        elif padding == "same":
            totals.append(reach)
        else:
            totals.append(0 if padding == "valid" else 2 * padding[axis])
    before = tuple(total // 2 for total in totals)
    return before + tuple(total - one for total, one in zip(totals, before, strict=True))


def fields(layer: Layer) -> dict[str, Any]:
    """Return the fields of a layer's workload, as ``tuner.torch.modules`` derives them."""
    shared = {"stride": layer.stride[0], "dilation": layer.dilation[0], "padding": layer.padding}
    batch, channels, *extents = layer.input
    if layer.operator == "conv1d":
        return shared | {
            "B": batch,
            "C": channels,
            "M": extents[0],
            "F": layer.out_channels,
            "N": layer.kernel[0],
            "kind": "correlate",
            "groups": layer.groups,
        }
    return shared | {
        "B": batch,
        "C": channels,
        "H": extents[0],
        "W": extents[1],
        "KH": layer.kernel[0],
        "KW": layer.kernel[1],
        "multiplier": layer.out_channels // channels,
    }


def unfit(layer: Layer) -> tuple[str, str] | None:
    """Return why a layer is no workload, or None if it is one.

    The reason is (a kind of reason, under which layers are grouped, and a message on this layer).
    """
    if layer.padding_mode != "zeros":
        return f"padding_mode {layer.padding_mode}", ""
    for name in ("stride", "dilation"):
        if len(set(getattr(layer, name))) > 1:
            return f"{name} differs in its directions", ""
    if layer.groups not in (1, layer.input[1]):
        return "groups between 1 and its channels", ""
    if layer.operator == "depthwise_conv2d" and layer.stride[0] > 4:
        return "strides above 4", ""
    try:
        templates.operator(layer.operator).workload.model_validate(fields(layer))
    except ValidationError as error:
        first = error.errors()[0]
        where = first.get("ctx", {}).get("field") or ".".join(map(str, first["loc"]))
        return f"{where}: {first['type']}", first["msg"]
    return None


def refusal(module: Any, layer: Layer) -> str | None:
    """Return why ``tuner.torch.modules`` refuses to replace a module, or None if it accepts it."""
    from tuner.errors import WrongArgument
    from tuner.torch.modules import Conv1d, DepthwiseConv2d

    kinds: dict[str, Any] = {"conv1d": Conv1d, "depthwise_conv2d": DepthwiseConv2d}
    if layer.operator not in kinds:
        return None
    source: Any = None
    try:
        kinds[layer.operator].of(module, source=source)
    except WrongArgument as error:
        return _without_the_module(module, str(error))
    return None


def _without_the_module(module: Any, message: str) -> str:
    """Return the reason in an error's message, without the module's text and the advice after
    it."""
    for words in (" is a ", " has ", ", which", "; "):
        message = message.replace(f"{module}{words}", f"it{words}", 1)
    for end in (", which", "; ", ", and the operator"):
        message = message.split(end, maxsplit=1)[0]
    return message.removeprefix("it ")


def take(census: Census, model: Model) -> None:
    """Count a model on the meta device or, if it can't be called there, on the CPU.

    A model that fails, or takes more than ``SECONDS``, goes to ``census.skipped`` with the reason.
    """
    name = f"{model.library} {model.name}"
    try:
        with _at_most(SECONDS):
            _add(census, name, model)
    except Exception as error:
        census.skipped[name] = f"{type(error).__name__}: {error}"
    gc.collect()


def _add(census: Census, name: str, model: Model) -> None:
    import torch

    size = 0
    try:
        with torch.device("meta"):
            module, inputs = model.make()
            size = sum(each.numel() for each in module.parameters())
            census.add(name, module, inputs)
    except (Absent, TimeoutError):
        raise
    except Exception:
        if not 0 < size <= MOST_PARAMETERS:
            raise
        census.add(name, *model.make())
        census.on_cpu.append(name)


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block if it takes longer."""

    def end(*_: Any) -> None:
        raise TimeoutError(f"it takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def as_json(census: Census) -> dict[str, Any]:
    """Return the counts and all layers as JSON. A layer names its models by their places in
    ``models``."""
    counts, layers = {}, []
    for operator in NAMES:
        found = census.of(operator)
        reasons = {layer: unfit(layer) for layer in found}
        fit = sum(reason is None for reason in reasons.values())
        counts[operator] = {
            "unique": len(found),
            "workloads": fit,
            "share": fit / len(found) if found else None,
            "accepted": sum(layer not in census.refused for layer in found),
        }
        for layer, reason in reasons.items():
            own: dict[str, Any] = {"models": sorted(map(census.models.index, census.layers[layer]))}
            if reason is not None:
                own |= {"reason": reason[0], "message": reason[1]}
            if layer in census.refused:
                own |= {"refused": sorted(census.refused[layer])}
            layers.append(asdict(layer) | {"text": str(layer)} | own)
    return {
        "operators": counts,
        "transposed_conv1d": len(census.of(TRANSPOSED)),
        "never_called": +census.uncalled,
        "on_cpu": census.on_cpu,
        "skipped": census.skipped,
        "models": census.models,
        "layers": layers,
    }
