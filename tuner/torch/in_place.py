"""Layers that stand in the place of a model's convolution and also compute modules behind it.

Users may change the model afterwards: replace a module, or register a hook. So before each call
:class:`TakenIn` checks whether the layer may still compute those modules.
"""

from __future__ import annotations

import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from tuner.errors import WrongArgument
from tuner.torch.replaced import hooks_of


class TakenIn:
    """The modules that a layer has taken in, and the places in the model on which this depends.

    ``passing`` are those modules: each returns its input while the layer computes for it. ``own``
    are the layer's places, as (parent, name). ``places``, as (parent, name, module), are those of
    the modules taken in, of their parts and of what lies between. References to the layer and to
    parents are weak, so that this object does not keep the model alive.
    """

    def __init__(
        self,
        layer: torch.nn.Module,
        own: Sequence[tuple[torch.nn.Module, str]],
        passing: Sequence[torch.nn.Module],
        places: Sequence[tuple[torch.nn.Module, str, torch.nn.Module]],
    ) -> None:
        self._layer = weakref.ref(layer)
        self._own = [(weakref.ref(parent), name) for parent, name in own]
        self._passing = tuple(passing)
        self._places = [(weakref.ref(parent), name, module) for parent, name, module in places]
        self._hooks: tuple[Any, ...] | None = None
        self._forwards: tuple[dict[str, Any], ...] = ()

    def begin(self) -> None:
        """Make the modules return their input."""
        for module in self._passing:
            vars(module)["forward"] = Passed(module, self)

    def end(self) -> None:
        """Make the modules compute again."""
        for module in self._passing:
            compute_again_(module)

    def stands(self) -> bool:
        """Return whether the layer exists and is where it was put. Asked before each call.

        If it is not, nothing computes for the modules, and they must do so themselves.
        """
        layer = self._layer()
        for place, name in self._own:
            parent = place()
            if parent is not None and parent._modules.get(name) is not layer:
                return False
        return layer is not None

    def parted(self, layer: torch.nn.Module) -> bool:
        """Return whether the layer must stop computing the modules. Asked before each call.

        It must if it or one of the modules got hooks that could see another value, if one of them
        was replaced, or if a module got another ``forward``.
        """
        if self._hooks is None:
            own = layer._forward_hooks, layer._backward_pre_hooks, layer._backward_hooks
            self._forwards = tuple(map(vars, self._passing))
            others = (module for _, _, module in self._places)
            self._hooks = (*own, *(hooks for each in others for hooks in _all_hooks(each)))
        if any(self._hooks) or not self.stands():
            return True
        for place, name, module in self._places:
            parent = place()
            if parent is not None and parent._modules.get(name) is not module:
                return True
        return any(type(each.get("forward")) is not Passed for each in self._forwards)

    def why(self, layer: torch.nn.Module) -> str:
        """Return the reason why :meth:`parted` is true, for a warning."""
        own = [(*place, layer) for place in self._own]
        for place, name, module in own + self._places:
            parent = place()
            if parent is not None and parent._modules.get(name) is not module:
                return f"another module stands in the place of {name}"
            if hooks_of(module):
                return f"{name} has hooks"
        return "what it took in has a forward of its own"

    def __getstate__(self) -> dict[str, Any]:
        own = [(place(), name) for place, name in self._own]
        places = [(place(), name, module) for place, name, module in self._places]
        return {
            "layer": self._layer(),
            "own": [each for each in own if each[0]],
            "passing": self._passing,
            "places": [each for each in places if each[0]],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        TakenIn.__init__(self, **state)


class Passed:
    """The ``forward`` of a module that a layer has taken in: it returns its input.

    If the layer does not stand in the model any more, it computes as the module's class does.
    """

    def __init__(self, module: torch.nn.Module, taken_in: TakenIn | None) -> None:
        self._module = weakref.ref(module)
        self._taken_in: Any = _gone if taken_in is None else weakref.ref(taken_in)

    def __call__(self, input: Any) -> Any:  # noqa: A002
        taken_in = self._taken_in()
        if taken_in is not None and taken_in.stands():
            return input
        module: Any = self._module()
        return type(module).forward(module, input)

    def __reduce__(self) -> tuple[Any, ...]:
        return Passed, (self._module(), self._taken_in())


def _gone() -> None:
    """Return None, as a weak reference does if its object is gone."""


def compute_again_(module: torch.nn.Module) -> None:
    """Have the module compute by its class's ``forward`` again, if it was taken in."""
    if type(vars(module).get("forward")) is Passed:
        del vars(module)["forward"]


class InPlace(torch.nn.Module):
    """A layer that may stand in a model in the place of a module.

    ``in_place_of`` holds that module, or is empty; as a tuple it hides the module from PyTorch,
    whose ``modules()`` must not find it. ``fixed`` names attributes that describe the layer's
    shape, such as ``stride``, and can't be changed. If the layer computes only a part of its
    output, ``whole`` has the attributes with which it computes all of it.
    """

    fixed: frozenset[str] = frozenset()
    in_place_of: tuple[torch.nn.Module, ...] = ()
    taken_in: TakenIn | None = None
    whole: Mapping[str, Any] = MappingProxyType({})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.fixed and value != getattr(self, name):
            raise WrongArgument(
                f"{name} of a layer that stands in the place of another is {getattr(self, name)}, "
                f"and can't become {value}: call restore_ on the model, set it there, and call "
                "optimize_ again"
            )
        super().__setattr__(name, value)

    def stand_alone(self) -> None:
        """Compute the convolution alone, nothing that was taken in, and all of its output."""
        self.taken_in = None
        vars(self).update(vars(self).pop("whole", {}))
        self.take_in(None, "none")

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def part(self) -> None:
        """Compute the convolution alone from this call on, and warn why.

        The modules that were taken in compute themselves again.
        """
        taken = self.taken_in
        # a replica, as torch.nn.DataParallel makes them, lasts for one call
        if taken is None or "_is_replica" in vars(self):
            return
        why = taken.why(self)
        taken.end()
        self.stand_alone()
        warnings.warn(
            f"{type(self).__name__} takes nothing in any more: {why}. Its model computes what it "
            "should, but what was taken in by itself: call optimize_ again",
            stacklevel=2,
        )

    @abstractmethod
    def take_in(self, norm: Any, activation: Any) -> None: ...


def _all_hooks(module: torch.nn.Module) -> Iterator[Any]:
    yield module._forward_pre_hooks
    yield module._forward_hooks
    yield module._backward_pre_hooks
    yield module._backward_hooks
