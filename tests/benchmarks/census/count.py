"""Counting the convolutions that a call of a model calls."""

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
"""For one model; it is left out if it takes longer."""
MOST_PARAMETERS = 400_000_000
"""Of a model that is built on the CPU because it can't be called on the meta device."""


@dataclass(frozen=True, order=True)
class Layer:
    """A convolution and its input, in PyTorch's words. ``padding`` are the zeros before and behind
    each axis: (left, right), or (top, left, bottom, right)."""

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
    """``layers``: each unique one with the models that have it. ``refused``: why the modules of
    tuner.torch refuse some of those layers."""

    layers: dict[Layer, set[str]] = field(default_factory=lambda: defaultdict(set))
    refused: dict[Layer, set[str]] = field(default_factory=lambda: defaultdict(set))
    models: list[str] = field(default_factory=list)
    on_cpu: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    uncalled: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, module: Any, inputs: dict[str, Any]) -> None:
        """Call the module once and count its convolutions. Raises what the call does."""
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
        return sorted(layer for layer in self.layers if layer.operator == operator)


def operator_of(module: Any) -> str | None:
    """The operator that the module is for, whether or not it is a workload of it."""
    from torch import nn

    if isinstance(module, nn.ConvTranspose1d):
        return TRANSPOSED
    if isinstance(module, nn.Conv1d):
        return "conv1d"
    if isinstance(module, nn.Conv2d) and module.groups == module.in_channels:
        return "depthwise_conv2d"
    return None


def called(module: Any, inputs: dict[str, Any]) -> list[tuple[Any, Layer, bool]]:
    """Each convolution of the module that computes something in a call of it, once for each shape
    of its input; and whether it is called itself, not only its weight used."""
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
    """A convolution on an input of that shape, with another padding than its own perhaps."""
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
    """All axes' zeros before, then all axes' behind. timm's Conv2dSame pads by its input, as
    TensorFlow does."""
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
    """A workload's fields, as tuner.torch.modules makes them of a module and its input."""
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
    """Why that is no workload, in general and of this layer; None if it is one."""
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
    """Why tuner.torch.modules does not take the module's place; None if it does."""
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
    for words in (" is a ", " has ", ", which", "; "):
        message = message.replace(f"{module}{words}", f"it{words}", 1)
    for end in (", which", "; ", ", and the operator"):
        message = message.split(end, maxsplit=1)[0]
    return message.removeprefix("it ")


def take(census: Census, model: Model) -> None:
    """Count a model on the meta device or, if it can't be called there, on the CPU."""
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
    """The counts, and every layer with the numbers of the models that have it."""
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
