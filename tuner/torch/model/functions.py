"""Convolutions that modules call as functions, and tuned layers that compute them there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tuner.torch.tuned_module import Tuned

CONVOLVING = {torch.conv1d: 1, torch.conv2d: 2}
"""PyTorch's functions that convolve, and the number of axes along which they do."""

MANY = 100
"""The most functions that a module may call for each convolution to be watched in eager mode. In a
module that is watched, each of its functions takes a microsecond longer."""

_LAYERS, _ONLY_COMPILED = "_convtune_layers", "_convtune_only_compiled"
CallSignature = tuple[Any, ...]


@dataclass(frozen=True)
class FunctionCall:
    """A call of ``torch.nn.functional.conv1d`` or ``conv2d`` that no convolution's module makes.

    ``within`` is the innermost module of the model that was being called; it may be the model
    itself. ``signature`` is what :func:`signature_of` returns.
    """

    within: nn.Module
    signature: CallSignature

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


class FunctionCaller(nn.Module):
    """A class that is put before the class of a module that calls convolutions as functions.

    Its ``forward`` is that of the module's class, but tuned layers compute the convolutions of
    their signatures.
    """

    def forward(self, *given: Any, **named: Any) -> Any:
        own = self.__dict__
        if own[_ONLY_COMPILED] and not torch.compiler.is_compiling():
            return super().forward(*given, **named)
        with _LayerDispatchMode(own[_LAYERS]):
            return super().forward(*given, **named)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # the class is made at run time, so a copy or a file must make it again
        state = self.__getstate__()  # type: ignore[no-untyped-call]
        return _empty_caller, (_own_class(self),), state


class _LayerDispatchMode(TorchFunctionMode):
    """A mode in which tuned layers compute the convolutions that have their signatures."""

    def __init__(self, layers: dict[CallSignature, Tuned]) -> None:
        super().__init__()
        self._layers = layers

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if func in CONVOLVING:
            return self._convolved(func, *args, **named)
        return func(*args, **named)

    def _convolved(
        self, func: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1,  # noqa: A002
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        if isinstance(input, torch.Tensor) and isinstance(weight, torch.Tensor):
            signature = signature_of(weight, bias, stride, padding, dilation, groups)
            layer = self._layers.get(signature)
            if layer is not None:
                return layer.call_with(input, weight, bias)
        return func(input, weight, bias, stride, padding, dilation, groups)


class FunctionSwap:
    """A convolution that a module calls as a function, and the tuned layer that computes it."""

    def __init__(self, called: FunctionCall, tuned: Tuned, only_compiled: bool) -> None:
        self._module, self._signature, self._tuned = called.within, called.signature, tuned
        self._only_compiled = only_compiled

    def apply(self) -> None:
        own = vars(self._module)
        if not isinstance(self._module, FunctionCaller):
            own[_LAYERS] = {}
            kind: Any = type(self._module)
            self._module.__class__ = _caller_class(kind)
        own[_LAYERS][self._signature] = self._tuned
        own[_ONLY_COMPILED] = self._only_compiled

    def undo(self) -> None:
        vars(self._module)[_LAYERS].pop(self._signature)
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
    return type(kind.__name__, (FunctionCaller, kind), names)


def _empty_caller(kind: Any) -> nn.Module:
    made = _caller_class(kind)
    return made.__new__(made)
