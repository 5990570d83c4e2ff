"""Layers that stand in the place of a model's convolution and also compute modules behind it.

Users may change the model afterwards: replace a module, or register a hook. So before each call
:class:`FusedModules` checks whether the layer may still compute those modules. In a graph of
``torch.compile`` each attribute that a check reads is compared in every call, which takes longer
than the kernel. There the checks are made when the graph is compiled, and again if a module was put
into one of the places meanwhile. A hook that is registered later is not seen, as with any module in
a graph, nor is a ``forward`` that is set on a module in another graph than the layer's.

PyTorch needs not compare one by one what a graph reads of a model, but only whether dictionaries
have changed, if the graph reads nothing of it but modules, dictionaries, tensors and constants. A
single other object makes that impossible for the whole model. So what is read here is of these.
"""

from __future__ import annotations

import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from templates.epilogue import Activation
from tuner.errors import WrongArgument
from tuner.torch.functional import activations
from tuner.torch.layer_calls import Calls, calls_of
from tuner.torch.pytorch_only import PLAIN, not_none


class FusedModules(torch.nn.Module):
    """The modules that a layer has taken in, and the places in the model on which this depends.

    ``fused`` are those modules: each returns the layer's output as it is given. ``own`` are the
    layer's places, as (parent, name). ``places``, as (parent, name, module), are those of the
    modules taken in, of their parts and of what lies between. ``known`` has those of them that are
    activations and can be set to be others, with which one each is, by default now. ``sequences``
    are those into which the layer was put later, beside its own places. References to the layer, to
    parents and to sequences are weak, so that this object does not keep the model alive.
    """

    def __init__(
        self,
        layer: torch.nn.Module,
        own: Sequence[tuple[torch.nn.Module, str]],
        fused: Sequence[torch.nn.Module],
        places: Sequence[tuple[torch.nn.Module, str, torch.nn.Module]],
        known: Sequence[tuple[torch.nn.Module, Activation]] | None = None,
        sequences: Sequence[torch.nn.Sequential] = (),
    ) -> None:
        super().__init__()
        self._layer = weakref.ref(layer)
        self._own = [(weakref.ref(parent), name) for parent, name in own]
        self._fused = tuple(fused)
        self._places = [(weakref.ref(parent), name, module) for parent, name, module in places]
        self._sequences = [*map(weakref.ref, sequences)]
        if known is None:
            within = dict.fromkeys((*fused, *(module for _, _, module in places)))
            known = [
                (each, activation)
                for each in within
                if activations.is_settable(each) and (activation := activations.of(each))
            ]
        self._activations = dict(enumerate(module for module, _ in known))
        self._before = dict(enumerate(activation for _, activation in known))
        self._classes = tuple(map(type, fused))
        self.calls = calls_of([*map(id, fused)])
        self._hooks: tuple[Any, ...] | None = None
        self._forwards: tuple[dict[str, Any], ...] = ()
        self.changes = 0
        for parent in (*(parent for parent, _ in own), *(parent for parent, *_ in places)):
            _watch(parent, self)

    def begin(self) -> None:
        """Have the modules return the layer's output as they are given it."""
        for module in self._fused:
            vars(module)["forward"] = PassThrough(module, self)

    def end(self) -> None:
        """Make the modules compute again."""
        for module in self._fused:
            restore_forward_(module)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def announce_in_graph(self) -> bool:
        """Note while a graph is made that the layer is called in it. Return True."""
        self.calls.announce_in_graph()
        return True

    def is_installed(self) -> bool:
        """Return whether the layer exists and is where it was put. Asked before each call.

        If it is not, nothing computes for the modules, and they must do so themselves.
        """
        layer = self._layer()
        for place, name in self._own:
            parent = place()
            if parent is not None and parent._modules.get(name) is not layer:
                return False
        return layer is not None

    def must_unfuse(self) -> bool:
        """Return whether the layer must stop computing the modules. Asked before each call.

        It must if it or one of the modules got hooks that could see another value or another
        ``forward``, if a module was replaced, is of another class or is another activation now, or
        if a sequence that was made later calls the layer without them.
        """
        return self._is_parted(self.changes) or self._has_other_activation()

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _is_parted(self, changes: int) -> bool:
        """Return what :meth:`must_unfuse` does, without looking at activations.

        A graph computes it once for each number of ``changes``."""
        layer = self._layer()
        if layer is None or not self.is_installed() or "forward" in vars(layer):
            return True
        if self._hooks is None:
            self._forwards = tuple(map(vars, self._fused))
            others = (module for _, _, module in self._places)
            hooks = (hooks for each in others for hooks in _all_hooks(each))
            self._hooks = (*_output_hooks(layer), *hooks)
        if any(self._hooks):
            return True
        for place, name, module in self._places:
            parent = place()
            if parent is not None and parent._modules.get(name) is not module:
                return True
        if self._has_other_class() or self._is_elsewhere():
            return True
        return any(type(each.get("forward")) is not PassThrough for each in self._forwards)

    def count_change(self) -> None:
        """Have graphs check again."""
        self.changes += 1
        for module in self._fused:
            forward = vars(module).get("forward")
            if type(forward) is PassThrough:
                forward.changes = self.changes

    def why(self, layer: torch.nn.Module) -> str:
        """Return the reason why :meth:`must_unfuse` is true, for a warning."""
        own = [(*place, layer) for place in self._own]
        for place, name, module in own + self._places:
            parent = place()
            if parent is not None and parent._modules.get(name) is not module:
                return f"another module stands in the place of {name}"
            if any(_output_hooks(module) if module is layer else _all_hooks(module)):
                return f"{name} has hooks"
        reasons = {
            "an activation that it took in is another one now": self._has_other_activation(),
            "what it took in is of another class now": self._has_other_class(),
            "a Sequential calls it, but not what it took in right after it": self._is_elsewhere(),
            "it has a forward of its own": "forward" in vars(layer),
            "what it took in has a forward of its own": True,
        }
        return next(reason for reason, holds in reasons.items() if holds)

    def note_sequence(self, sequence: torch.nn.Sequential) -> None:
        """Note that the layer was put into a sequence, which may be a part of the model's, such as
        ``model.features[:-1]``, or take its place."""
        if not any(place() is sequence for place, _ in self._own):
            self._sequences = [each for each in self._sequences if each() is not None]
            self._sequences.append(weakref.ref(sequence))
            self.count_change()

    def _is_elsewhere(self) -> bool:
        """Return whether a sequence calls the layer, but not the modules right after it."""
        layer, between = self._layer(), [module for _, _, module in self._places]
        for place in self._sequences:
            sequence = place()
            modules = [] if sequence is None else [*sequence._modules.values()]
            for start in (at for at, module in enumerate(modules, 1) if module is layer):
                missing = [*self._fused]
                for module in modules[start:]:
                    if missing and module is missing[0]:
                        missing.pop(0)
                    elif not any(module is each for each in between):
                        break
                if missing:
                    return True
        return False

    def _has_other_class(self) -> bool:
        return tuple(map(type, self._fused)) != self._classes

    def _has_other_activation(self) -> bool:
        return any(
            activations.of(module) != self._before[number]
            for number, module in self._activations.items()
        )

    def __getstate__(self) -> dict[str, Any]:
        own = [(place(), name) for place, name in self._own]
        places = [(place(), name, module) for place, name, module in self._places]
        return {
            "layer": self._layer(),
            "own": [each for each in own if each[0]],
            "fused": self._fused,
            "places": [each for each in places if each[0]],
            "known": [*zip(self._activations.values(), self._before.values(), strict=True)],
            "sequences": [each for place in self._sequences if (each := place()) is not None],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        FusedModules.__init__(self, **state)


class PassThrough(torch.nn.Module):
    """The ``forward`` of a module that a layer has taken in: it returns the layer's output.

    If anything else is given, because another model has the module too, or if the layer does not
    stand in the model any more, it computes as the module's class does.
    """

    def __init__(self, module: torch.nn.Module, fused_modules: FusedModules | None) -> None:
        super().__init__()
        self._module, self._id = weakref.ref(module), id(module)
        self._fused_modules: Any = _gone if fused_modules is None else weakref.ref(fused_modules)
        self.changes = 0

    def __call__(self, input: Any) -> Any:  # noqa: A002
        if torch.compiler._is_exporting_flag or torch.compiler.is_compiling():
            computed = self._is_computed_in_graph(self.changes)
            if computed is None:
                return self._outside_graphs(input)
        else:
            computed = self._is_computed(input)
        return input if computed else self._compute(input)

    def _is_computed(self, given: Any) -> bool:
        fused_modules = self._fused_modules()
        return fused_modules is not None and fused_modules.calls.comes_next(self._id, given)

    def _compute(self, given: Any) -> Any:
        module: Any = self._module()
        return type(module).forward(module, given)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _is_computed_in_graph(self, changes: int) -> bool | None:
        """Return whether the layer computes for the module, or None if no graph can tell. As for
        :class:`FusedModules`, a graph computes it once for each number of ``changes``."""
        fused_modules = self._fused_modules()
        if fused_modules is None or not fused_modules.is_installed():
            return False
        calls: Calls = fused_modules.calls
        return calls.comes_next_in_graph(self._id)

    @torch.compiler.disable(  # type: ignore[untyped-decorator]
        reason="a tuned layer that computes this module in one model is not in this graph"
    )
    def _outside_graphs(self, given: Any) -> Any:
        return given if self._is_computed(given) else self._compute(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return PassThrough, (self._module(), self._fused_modules())


_watching: dict[int, weakref.WeakSet[FusedModules]] = {}
"""By the id of a module, those that depend on what its places hold."""


def _watch(parent: torch.nn.Module, fused_modules: FusedModules) -> None:
    """Have changes counted if a module is put into one of the parent's places."""
    if id(parent) not in _watching:
        _watching[id(parent)] = weakref.WeakSet()
        weakref.finalize(parent, _watching.pop, id(parent))
    _watching[id(parent)].add(fused_modules)


def _count_change(parent: torch.nn.Module, name: str, module: torch.nn.Module | None) -> None:
    for each in _watching.get(id(parent), ()):
        each.count_change()
    fused_modules = module.fused_modules if isinstance(module, InPlace) else None
    if fused_modules is not None and type(parent).forward is torch.nn.Sequential.forward:
        fused_modules.note_sequence(parent)  # type: ignore[arg-type]  # of a class derived from it


torch.nn.modules.module.register_module_module_registration_hook(_count_change)


def _gone() -> None:
    """Return None, as a weak reference does if its object is gone."""


def restore_forward_(module: torch.nn.Module) -> None:
    """Have the module compute by its class's ``forward`` again, if it was taken in."""
    if type(vars(module).get("forward")) is PassThrough:
        del vars(module)["forward"]


HIDDEN = ("norm", "fused_modules")
"""Attributes of a layer that are modules, but none of its own: PyTorch must not register them."""


class InPlace(torch.nn.Module):
    """A layer that may stand in a model in the place of a module.

    ``in_place_of`` holds that module, or is empty; as a tuple it hides the module from PyTorch,
    whose ``modules()`` must not find it. ``fixed`` names attributes that describe the layer's
    shape, such as ``stride``, and can't be changed. If the layer computes only a part of its
    output, ``whole`` has the attributes with which it computes all of it.
    """

    fixed: frozenset[str] = frozenset()
    in_place_of: tuple[torch.nn.Module, ...] = ()
    fused_modules: FusedModules | None = None
    whole: Mapping[str, Any] = MappingProxyType({})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in HIDDEN:
            vars(self)[name] = value
            return
        if name == "forward" and self.fused_modules is not None:
            self.fused_modules.count_change()
        if name in self.fixed and value != getattr(self, name):
            raise WrongArgument(
                f"{name} of a layer that stands in the place of another is {getattr(self, name)}, "
                f"and can't become {value}: call restore_ on the model, set it there, and call "
                "optimize_ again"
            )
        super().__setattr__(name, value)

    def leave_graph(self, y: Any) -> None:
        """Note that this is an output of a call in a graph."""
        if self.fused_modules is not None:
            self.fused_modules.calls.leave_graph(y)

    def stand_alone(self) -> None:
        """Compute the convolution alone, nothing that was taken in, and all of its output."""
        self.fused_modules = None
        vars(self).update(vars(self).pop("whole", {}))
        self.fuse(None, "none")

    @torch.compiler.disable(  # type: ignore[untyped-decorator]
        reason="the model was changed, so the layer takes nothing in any more: call optimize_ again"
    )
    def unfuse(self) -> None:
        """Compute the convolution alone from this call on, and warn why.

        The modules that were taken in compute themselves again.
        """
        fused = self.fused_modules
        # a replica, as torch.nn.DataParallel makes them, lasts for one call
        if fused is None or "_is_replica" in vars(self):
            return
        why = fused.why(self)
        fused.end()
        self.stand_alone()
        warnings.warn(
            f"{type(self).__name__} takes nothing in any more: {why}. Its model computes what it "
            "should, but what was taken in by itself: call optimize_ again",
            stacklevel=2,
        )

    def _are_plain(self, given: Sequence[Any]) -> bool:
        """Return whether a graph's tensors are of no other class. It compares the classes of this
        layer's own parameters in each call anyway; to ask for them would do so twice."""
        own = [*self._parameters.values()]
        others = [each for each in given if not any(each is parameter for parameter in own)]
        return all(type(each) in PLAIN for each in others) and self._has_plain_parameters()

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _has_plain_parameters(self) -> bool:
        return all(type(each) in PLAIN for each in not_none(*self._parameters.values()))

    @abstractmethod
    def fuse(self, norm: Any, activation: Any) -> None: ...


def _all_hooks(module: torch.nn.Module) -> Iterator[Any]:
    yield module._forward_pre_hooks
    yield from _output_hooks(module)


def _output_hooks(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the hooks that could see what a layer computes beside the convolution."""
    yield module._forward_hooks
    yield module._backward_pre_hooks
    yield module._backward_hooks
