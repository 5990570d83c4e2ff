"""Convolutions that modules call as functions, and tuned layers that compute them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tuner.torch.tuned_module import Tuned

CONVOLVING = {torch.conv1d: 1, torch.conv2d: 2}
"""PyTorch's functions that convolve, and the number of axes along which they do."""

MANY = 100
"""The most functions for each convolution that a module may call and still be watched in eager
mode. Each function of a watched module takes a microsecond longer."""

_LAYERS, _ONLY_COMPILED = "_convtune_layers", "_convtune_only_compiled"
CallSignature = tuple[Any, ...]


@dataclass(frozen=True)
class FunctionCall:
    """A call of ``torch.nn.functional.conv1d`` or ``conv2d`` that no convolution's module makes.

    ``within`` is the innermost module of the model that was being called; it may be the model
    itself. ``signature`` is what :func:`signature_of` returns. ``gated`` says that the call is the
    convolution together with the gates around it, as :class:`GateTracker` finds them.
    """

    within: nn.Module
    signature: CallSignature
    gated: bool = False

    @property
    def module(self) -> nn.Module:
        """A module that would compute the same; its weight and bias are on the meta device."""
        (filters, channels, *taps), has_bias, stride, padding, dilation, groups = self.signature
        kind: Any = nn.Conv1d if len(taps) == 1 else nn.Conv2d
        made: nn.Module = kind(
            channels * groups, filters, taps, stride, padding, dilation, groups, has_bias,
            device="meta",
        )  # fmt: skip
        return made


def signature_of(
    weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> CallSignature:
    """Return a key that calls share if only their inputs and the values of tensors differ."""
    axes = weight.ndim - 2
    named = isinstance(padding, str)
    padding = padding if named else _each(padding, axes)
    shape, has_bias = tuple(weight.shape), bias is not None
    return shape, has_bias, _each(stride, axes), padding, _each(dilation, axes), groups


def _each(value: Any, axes: int) -> tuple[int, ...]:
    """Return a number for each axis."""
    return (value,) * axes if isinstance(value, int) else tuple(value) * (axes // len(value))


class GateTracker:
    """A search for a convolution between gates among the functions that a module calls.

    It is fed each call and finds ``behind * conv1d(before * signal)[..., :M]`` if ``before``,
    ``behind`` and ``signal`` are the three chunks of one tensor (B, 3 C, M). ``whole`` is that
    tensor, and ``convolved`` what :meth:`convolution` was told. Tensors are told apart by identity,
    which works while a graph is traced, too. Any function in between ends the search, unless it is
    known to write to no tensor.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.whole: Any = None
        self.convolved: Any = None
        self.is_cut = False
        self._parts: Any = None
        self._product: Any = None
        self._output: Any = None

    def is_product(self, tensor: Any) -> bool:
        """Return whether the tensor is ``before * signal``."""
        return self._product is not None and tensor is self._product

    def convolution(self, output: Any, convolved: Any) -> None:
        """Note that a convolution of the product gave this output."""
        self._output, self.convolved, self.is_cut = output, convolved, False

    def ends(self, name: str, given: tuple[Any, ...]) -> bool:
        """Return whether a function's call multiplies the convolution's output by its gates."""
        if self._output is None or name not in _PRODUCTS or len(given) != 2:
            return False
        same_shape = self._output.shape == self._parts[1].shape
        return same_shape and _are(given, self._parts[1], self._output)

    def note(self, name: str, given: tuple[Any, ...], named: Any, result: Any) -> None:
        """Note a function's call and its result."""
        if name == "chunk":
            self.forget()
            if given and len(result) == 3 and result[0].ndim == 3:
                whole = given[0]
                if whole.shape[1] == 3 * result[0].shape[1]:
                    self.whole, self._parts = whole, result
        elif self._parts is None:
            return
        elif name in _PRODUCTS and len(given) == 2 and not named:
            if _are(given, self._parts[0], self._parts[2]):
                self._product = result
        elif name == "__getitem__":
            if given[0] is self._output and _is_head(given[1], self.whole):
                self._output, self.is_cut = result, True
        elif name == "to":
            self._note_conversion(given, result)
        elif name not in _PURE or named.get("out") is not None:
            self.forget()

    def _note_conversion(self, given: tuple[Any, ...], result: Any) -> None:
        """Follow a tensor through ``.to()``, if it stays what it is."""
        here = self.whole
        if given and (result.dtype, result.device) == (here.dtype, here.device):
            if given[0] is self._product:
                self._product = result
            elif given[0] is self._output:
                self._output = result


_PRODUCTS = ("mul", "multiply", "__mul__", "__rmul__")
_PURE = (
    "conv1d", "squeeze", "unsqueeze", "transpose", "permute", "view", "reshape", "expand",
    "contiguous", "clone", "pad", "size", "dim", "stride", "numel", "is_contiguous", "__get__",
    "__len__",
)  # fmt: skip
"""Names of functions that write to no tensor. While a graph is traced, a function can be compared
by its name, but not looked up in a set."""


def _are(given: tuple[Any, ...], one: Any, other: Any) -> bool:
    """Return whether two tensors are these, in any order."""
    first, second = given
    return (first is one and second is other) or (first is other and second is one)


def _is_head(index: Any, whole: Any) -> bool:
    """Return whether an index takes as many samples as ``whole`` has, from the first one on."""
    if not isinstance(index, tuple) or any(not isinstance(each, slice) for each in index[1:]):
        return False
    rest = (index[0] is Ellipsis and len(index) == 2) or (
        len(index) == 3 and index[0] == index[1] == slice(None)
    )
    cut = index[-1]
    return bool(rest and cut.start is None and cut.step is None and cut.stop == whole.shape[-1])


class FunctionCaller(nn.Module):
    """A class that is put before the class of a module that calls convolutions as functions.

    Its ``forward`` is that of the module's class, but tuned layers compute the convolutions that
    have their signatures.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        # the class is made at run time, so a copy or a file must make it again
        state = self.__getstate__()  # type: ignore[no-untyped-call]
        return _empty_caller, (_own_class(self),), state


def _dispatching(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``forward`` of :class:`FunctionCaller`, with the signature of a class's own."""

    @wraps(forward)
    def called(self: nn.Module, *given: Any, **named: Any) -> Any:
        own = self.__dict__
        if own[_ONLY_COMPILED] and not torch.compiler.is_compiling():
            return forward(self, *given, **named)
        with _LayerDispatchMode(own[_LAYERS]):
            return forward(self, *given, **named)

    return called


class _LayerDispatchMode(TorchFunctionMode):
    """A mode in which tuned layers compute the convolutions that have their signatures.

    ``layers`` has the layers, by signature and by whether they compute the gates too. While a graph
    is traced, it gets both: the convolution without the gates, and the layer with them. If the
    model uses the former nowhere else, PyTorch removes it from the graph, with the product before
    it. So the result is right whatever else the model does with the convolution or the product. In
    eager mode both would be computed, so no layer computes gates there.
    """

    def __init__(self, layers: dict[tuple[CallSignature, bool], Tuned]) -> None:
        super().__init__()
        self._layers = layers
        sought = torch.compiler.is_compiling() and any(gated for _, gated in layers)
        self._gates = GateTracker() if sought else None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func in CONVOLVING:
            return self._convolved(func, *args, **named)
        gates = self._gates
        if gates is None:
            return func(*args, **named)
        name = getattr(func, "__name__", "")
        if not named and gates.ends(name, args):
            layer, weight, bias = gates.convolved
            return layer.call_with(gates.whole, weight, bias)
        result = func(*args, **named)
        gates.note(name, args, named, result)
        return result

    def _convolved(
        self, func: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1,  # noqa: A002
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        if isinstance(input, torch.Tensor) and isinstance(weight, torch.Tensor):
            signature = signature_of(weight, bias, stride, padding, dilation, groups)
            layer = self._layers.get((signature, False))
            if layer is None:
                output = func(input, weight, bias, stride, padding, dilation, groups)
            else:
                output = layer.call_with(input, weight, bias)
            gated = self._layers.get((signature, True))
            gates = self._gates
            if gated is not None and gates is not None and gates.is_product(input):
                if _is_alone(input, weight, bias):
                    gates.convolution(output, (gated, weight, bias))
                else:
                    gates.forget()
            return output
        return func(input, weight, bias, stride, padding, dilation, groups)


def _is_alone(input: Any, weight: Any, bias: Any) -> bool:  # noqa: A002
    """Return whether a call needs its output alone: autocast is off, and no gradients are needed,
    which for gates only PyTorch computes."""
    if input.dtype != weight.dtype or torch.is_autocast_enabled(input.device.type):
        return False
    given = (input, weight) if bias is None else (input, weight, bias)
    return not (torch.is_grad_enabled() and any(each.requires_grad for each in given))


class FunctionSwap:
    """A convolution that a module calls as a function, and the tuned layer that computes it."""

    def __init__(self, called: FunctionCall, tuned: Tuned, only_compiled: bool) -> None:
        self._module, self._tuned = called.within, tuned
        self._key = called.signature, called.gated
        self._only_compiled = only_compiled

    def apply(self) -> None:
        own = vars(self._module)
        if not isinstance(self._module, FunctionCaller):
            own[_LAYERS] = {}
            kind: Any = type(self._module)
            self._module.__class__ = _caller_class(kind)
        own[_LAYERS][self._key] = self._tuned
        own[_ONLY_COMPILED] = self._only_compiled

    def undo(self) -> None:
        vars(self._module)[_LAYERS].pop(self._key)
        if not vars(self._module)[_LAYERS]:
            restore_class_(self._module)


def layers_of(model: nn.Module) -> Iterator[Tuned]:
    """Yield the tuned layers that compute what the model's modules call as functions."""
    for module in model.modules():
        if isinstance(module, FunctionCaller):
            yield from vars(module)[_LAYERS].values()


def restore_class_(module: nn.Module) -> None:
    """Give the module its own class back, if :class:`FunctionCaller` was put before it."""
    if isinstance(module, FunctionCaller):
        module.__class__ = _own_class(module)
        del vars(module)[_LAYERS], vars(module)[_ONLY_COMPILED]


def _own_class(module: FunctionCaller) -> Any:
    """Return the module's own class."""
    return type(module).__mro__[2]


@cache
def _caller_class(kind: Any) -> type[nn.Module]:
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(
        kind.__name__, (FunctionCaller, kind), names | {"forward": _dispatching(kind.forward)}
    )


def _empty_caller(kind: Any) -> nn.Module:
    made = _caller_class(kind)
    return made.__new__(made)
