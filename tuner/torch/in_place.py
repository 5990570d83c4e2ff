"""What stands in a model in the place of a convolution, and computes what stands behind it too, for
as long as that stands there."""

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
    """The modules that a layer computes too, ``passing`` on what comes, and the ``places`` in a
    model on which its values depend: of those modules, their parts and what lies between, and the
    ``own`` ones of the layer. It does not keep the model alive."""

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
        """The modules pass on what comes."""
        for module in self._passing:
            vars(module)["forward"] = Passed(module, self)

    def end(self) -> None:
        """The modules compute again."""
        for module in self._passing:
            compute_again_(module)

    def stands(self) -> bool:
        """Whether the layer is where it was put, so that there is something to pass on. It is asked
        before each call."""
        layer = self._layer()
        for place, name in self._own:
            parent = place()
            if parent is not None and parent._modules.get(name) is not layer:
                return False
        return layer is not None

    def parted(self, layer: torch.nn.Module) -> bool:
        """Whether the layer may compute none of them any more. It is asked before each call."""
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
        """Why it is parted."""
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
    """The ``forward`` of a module that a kernel has taken in: it passes on what comes, for as long
    as the layer stands that gives it."""

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
    """As a reference whose object is."""


def compute_again_(module: torch.nn.Module) -> None:
    """Take what passes on from the module, if there is that."""
    if type(vars(module).get("forward")) is Passed:
        del vars(module)["forward"]


class InPlace(torch.nn.Module):
    """A layer that may stand in the place of a module. ``in_place_of`` holds that, or nothing;
    ``fixed`` what says of its shape, and ``whole`` the fields with which it computes all of its
    output, if it computes a part."""

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
        """Compute the convolution alone, and all of its output."""
        self.taken_in = None
        vars(self).update(vars(self).pop("whole", {}))
        self.take_in(None, "none")

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def part(self) -> None:
        """Compute the convolution alone from now on. What was taken in computes itself."""
        taken = self.taken_in
        if taken is None or "_is_replica" in vars(self):  # torch.nn.DataParallel's, of one call
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
