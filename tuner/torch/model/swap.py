"""Swaps of a model's own layers and tuned ones, in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from torch import nn

from tuner.torch import arguments
from tuner.torch.fused_modules import FusedModules, Place, restore_forward_
from tuner.torch.lookup.reason_log import ReasonLog
from tuner.torch.model.flow.functions import FunctionCall, FunctionSwap, restore_class_
from tuner.torch.model.survey import ModelLayer, modules_around, passed_modules
from tuner.torch.replaced import hand_back
from tuner.torch.tuned_module import Tuned


class Swap(Protocol):
    """A tuned layer that can be put in its place in a model, and taken away again."""

    def apply(self) -> None: ...

    def undo(self) -> None: ...


def swaps_of(model: nn.Module, layers: Sequence[ModelLayer]) -> list[Swap]:
    """Return a swap for each of the layers. Their tuned layers share a log that has each reason
    once."""
    reason_log = ReasonLog(type(model).__name__, len(layers))
    return [_swap(model, layer, reason_log) for layer in layers]


def _swap(model: nn.Module, layer: ModelLayer, reason_log: ReasonLog) -> Swap:
    tuned: Any = layer.tuned
    tuned.reason_log = reason_log
    if isinstance(layer.convolution, FunctionCall):
        return FunctionSwap(layer.convolution, tuned, layer.only_compiled)
    return _ModuleSwap(model, layer, layer.convolution)


class _ModuleSwap:
    """A swap of a model's module and the tuned layer for it.

    Modules that the tuned layer takes in stay where they are, under their names, and return their
    input.
    """

    def __init__(self, model: nn.Module, layer: ModelLayer, convolution: nn.Module) -> None:
        self._convolution = convolution
        tuned: Any = layer.tuned
        tuned.in_place_of = (convolution,)  # in a tuple, so that it is no submodule
        self._tuned, self._places = tuned, _places(model, convolution)
        if layer.fused or tuned.whole:
            own = [(*place, tuned) for place in self._places]
            around, others = _dependent_places(model, layer)
            tuned.fused_modules = FusedModules(tuned, own + around, layer.fused, others)

    def apply(self) -> None:
        for parent, name in self._places:
            parent._modules[name] = self._tuned
        if self._tuned.fused_modules is not None:
            self._tuned.fused_modules.begin()

    def undo(self) -> None:
        for parent, name in self._places:
            parent._modules[name] = self._convolution
        if self._tuned.fused_modules is not None:
            self._tuned.fused_modules.end()


def restore_(model: nn.Module) -> None:
    """Give the model its own layers back, in place, with its current parameters, hooks and modes.

    A model that was not optimised stays as it is. Raises WrongArgument if it is no module.
    """
    arguments.model(model)
    for module in list(model.modules()):
        restore_class_(module)
        restore_forward_(module)
        if isinstance(module, Tuned) and module.in_place_of:
            (own,) = module.in_place_of
            hand_back(module, own)
            for parent, name in _places(model, module):
                parent._modules[name] = own


def _dependent_places(model: nn.Module, layer: ModelLayer) -> tuple[list[Place], list[Place]]:
    """Return the places that must not change while the layer takes in the modules behind it.

    The first list has the places of the modules around the convolution that do not hold all that it
    takes in. The second has those of all modules from behind it to the last that it takes in, of
    their parts, and of the other modules around some of them.
    """
    passed = passed_modules(layer)
    around = modules_around(model, layer)
    within = [each for each in around if layer.convolution in {*each.modules()}]
    others = {part for each in passed for part in each.modules()} | {*around} - {*within}

    def placed(modules: Iterable[nn.Module]) -> list[Place]:
        return [(*place, each) for each in modules for place in _places(model, each)]

    return placed(within), placed(others)


def _places(model: nn.Module, module: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return all places of a module in the model, as (parent, name)."""
    return [
        (parent, name)
        for parent in model.modules()
        for name, child in parent._modules.items()
        if child is module
    ]
