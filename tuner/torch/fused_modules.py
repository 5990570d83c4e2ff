"""Layers that stand in the place of a model's convolution and also compute modules behind it.

Users may change the model afterwards: they may replace a module or register a hook. So before each
call :class:`FusedModules` checks whether the layer may still compute those modules.

A graph of ``torch.compile`` compares, in every call, each attribute that a check reads. This takes
longer than the kernel. So in a graph the checks are made when the graph is compiled, and again
after a module was put into one of the places. A graph does not see a hook that is registered later,
as with any module in a graph. It also does not see a ``forward`` that is set on a module in another
graph than the layer's.

If a graph reads only modules, dictionaries, tensors and constants of a model, PyTorch only compares
whether dictionaries have changed. If the graph reads a single other object, PyTorch compares all
that is read one by one, for the whole model. So this module reads only objects of these kinds.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from templates.epilogue import Activation
from tuner.torch.functional import activations
from tuner.torch.layer_calls import Calls, calls_of
from tuner.torch.pytorch_only import PLAIN

Place = tuple[torch.nn.Module, str, torch.nn.Module]
"""A module's place in a model: its parent, its name there and the module itself."""


class FusedModules(torch.nn.Module):
    """The modules that a layer has taken in, and the places in the model on which this depends.

    ``fused`` are the modules that were taken in: each returns the layer's output unchanged. ``own``
    has places, as (parent, name, module): those of the layer, and of the modules around it that do
    not hold all of ``fused``. ``places`` has the places of the modules taken in, of their parts, of
    the modules between them, and of the other modules around any of these. ``known`` pairs each
    module in ``fused`` or ``places`` whose attributes can change its activation with that
    activation, by default the present one. ``sequences`` are the sequences into which the layer, or
    a module around it, was put later. References to the modules of ``own``, to parents and to
    sequences are weak, so that this object does not keep the model alive.
    """

    def __init__(
        self,
        layer: torch.nn.Module,
        own: Sequence[Place],
        fused: Sequence[torch.nn.Module],
        places: Sequence[Place],
        known: Sequence[tuple[torch.nn.Module, Activation]] | None = None,
        sequences: Sequence[torch.nn.Sequential] = (),
    ) -> None:
        super().__init__()
        ref = weakref.ref
        self._layer = ref(layer)
        self._own = [(ref(parent), name, ref(module)) for parent, name, module in own]
        self._fused = tuple(fused)
        self._places = [(ref(parent), name, module) for parent, name, module in places]
        self._sequences = [*map(ref, sequences)]
        self._known_ids: list[tuple[int, ...]] = []
        self._is_known_elsewhere = False
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
        self._forwards: tuple[tuple[dict[str, Any], Any], ...] = ()
        self._around: list[tuple[Any, Any, int]] = []
        self.changes = 0
        for parent, *_ in (*own, *places):
            _watch(parent, self)

    def begin(self) -> None:
        """Make the modules return the layer's output unchanged."""
        for module in self._fused:
            vars(module)["forward"] = PassThrough(module, self)
        self._hooks = None

    def end(self) -> None:
        """Make the modules compute again, except those that another layer has taken in since."""
        for module in self._fused:
            if self._has(module):
                restore_forward_(module)

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def announce_in_graph(self, alone: bool) -> bool:
        """While a graph is made, note that the layer is called in it, and whether the layer
        computes the convolution alone. Return True."""
        self.calls.announce_in_graph(alone)
        return True

    def is_installed(self) -> bool:
        """Return whether the layer exists and is where it was put. Asked before each call.

        If it is not, the modules must compute themselves.
        """
        for place, name, own in self._own:
            parent = place()
            if parent is not None:
                module = parent._modules.get(name)
                if module is None or module is not own():
                    return False
        return self._layer() is not None

    def must_unfuse(self) -> bool:
        """Return whether the layer must stop computing the modules. Asked before each call.

        It must in each of these cases: the layer or a module got another ``forward``, or hooks that
        could see another value; a module was replaced, or its class or activation has changed; a
        sequence that was made later calls the layer without the modules.
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
            if not all(map(self._has, self._fused)):
                return True
            self._remember(layer)
        return (
            any(self._hooks)  # type: ignore[arg-type]  # _remember has just set it
            or self._is_replaced()
            or self._has_other_class()
            or bool(self._sequences and self._is_elsewhere())
            or bool(self._around and self._is_extended())
        )

    def _is_replaced(self) -> bool:
        """Return whether another module stands in one of the places, or a module has another
        forward."""
        for place, name, module in self._places:
            parent = place()
            if parent is not None and parent._modules.get(name) is not module:
                return True
        return any(own.get("forward") is not forward for own, forward in self._forwards)

    def _remember(self, layer: torch.nn.Module) -> None:
        """Remember the present hooks, forwards and lengths of sequences, which must not change."""
        around = [each for *_, own in self._own if (each := own()) not in (None, layer)]
        others = [module for *_, module in self._places]
        seen = (hooks for each in others for hooks in _all_hooks(each))
        outputs = (hooks for each in (layer, *around) for hooks in _output_hooks(each))
        self._hooks = (*outputs, *seen)
        self._forwards = tuple((vars(each), vars(each).get("forward")) for each in others)
        self._around = [
            (weakref.ref(each), vars(each).get("forward"), len(each._modules))
            for each in (*around, *others)
            if each in around or _is_sequence(each)
        ]

    def _is_extended(self) -> bool:
        """Return whether a sequence around the layer or around what it took in has another length,
        or a module around the layer has another forward."""
        for place, forward, length in self._around:
            module = place()
            if module is not None and (
                vars(module).get("forward") is not forward
                or (_is_sequence(module) and len(module._modules) != length)
            ):
                return True
        return False

    def count_change(self) -> None:
        """Have graphs check again."""
        self.changes += 1
        for module in filter(self._has, self._fused):
            vars(module)["forward"].changes = self.changes

    def _has(self, module: torch.nn.Module) -> bool:
        """Return whether the module returns this layer's output."""
        forward = vars(module).get("forward")
        return type(forward) is PassThrough and forward.is_of(self)

    def why(self, layer: torch.nn.Module) -> str:
        """Return the reason why :meth:`must_unfuse` is true, for a warning."""
        own = [(place, name, module()) for place, name, module in self._own]
        held = [module for *_, module in own]
        for place, name, module in own + self._places:
            parent = place()
            if parent is not None and parent._modules.get(name) is not module:
                return f"another module stands in the place of {name}"
            hooks = _output_hooks if module in held else _all_hooks
            if module is not None and any(hooks(module)):
                return f"{name} has hooks"
        kinds = {type(each) for each in layer._parameters.values()} - {*PLAIN, type(None)}
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        reasons = {
            f"its parameters are of class {names}, whose values may change unseen": bool(kinds),
            "an activation that it took in has changed": self._has_other_activation(),
            "a module that it took in has another class now": self._has_other_class(),
            "in a Sequential it is not directly followed by the modules that it took in": (
                self._is_elsewhere()
            ),
            "its forward was replaced": "forward" in vars(layer),
            "a module around it has another forward, or another number of modules": (
                self._is_extended()
            ),
            "a module that it took in has another forward": True,
        }
        return next(reason for reason, holds in reasons.items() if holds)

    def note_sequence(self, sequence: torch.nn.Sequential) -> None:
        """Note that the layer, or a module around it, was put into a sequence. The sequence may be
        a part of one of the model's, such as ``model.features[:-1]``, or take the place of one."""
        if not any(place() is sequence for place, *_ in self._own):
            self._sequences = [each for each in self._sequences if each() is not None]
            self._sequences.append(weakref.ref(sequence))
            self.count_change()

    def _is_elsewhere(self) -> bool:
        """Return whether a sequence calls the layer, but not the modules right after it."""
        known = [sequence for place in self._sequences if (sequence := place()) is not None]
        ids = [tuple(map(id, each._modules.values())) for each in known]
        if ids != self._known_ids:
            self._known_ids = ids
            self._is_known_elsewhere = any(self._calls_apart(each._modules) for each in known)
        return self._is_known_elsewhere

    def _calls_apart(self, modules: Mapping[str, torch.nn.Module | None]) -> bool:
        """Return whether a sequence of these modules calls the layer, but not the rest right after
        it."""
        layer, between = self._layer(), [each for *_, each in self._places]
        missing: list[torch.nn.Module] = []
        for module in filter(None, modules.values()):
            held = {*module.modules()}
            if layer in held:
                if missing:
                    return True
                missing = [*self._fused]
            elif missing and missing[0] not in held and module not in between:
                return True
            while missing and missing[0] in held:
                missing.pop(0)
        return bool(missing)

    def _has_other_class(self) -> bool:
        return tuple(map(type, self._fused)) != self._classes

    def _has_other_activation(self) -> bool:
        return any(
            activations.of(module) != self._before[number]
            for number, module in self._activations.items()
        )

    def __getstate__(self) -> dict[str, Any]:
        own = [(place(), name, module()) for place, name, module in self._own]
        places = [(place(), name, module) for place, name, module in self._places]
        return {
            "layer": self._layer(),
            "own": [each for each in own if each[0] and each[2]],
            "fused": self._fused,
            "places": [each for each in places if each[0]],
            "known": [*zip(self._activations.values(), self._before.values(), strict=True)],
            "sequences": [each for place in self._sequences if (each := place()) is not None],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        FusedModules.__init__(self, **state)


class PassThrough(torch.nn.Module):
    """The ``forward`` of a module that a layer has taken in: it returns the layer's output.

    It computes as the module's class does in two cases: it is given anything else, because another
    model has the module too; or the layer no longer stands in the model.
    """

    def __init__(self, module: torch.nn.Module, fused_modules: FusedModules | None) -> None:
        super().__init__()
        self._module, self._id = weakref.ref(module), id(module)
        self._fused_modules: Any = _gone if fused_modules is None else weakref.ref(fused_modules)
        self.changes = 0

    def is_of(self, fused_modules: FusedModules) -> bool:
        """Return whether this returns the output of the layer with these ``fused_modules``."""
        return self._fused_modules() is fused_modules

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
        reason="a tuned layer of another model computes this module, and is not in this graph"
    )
    def _outside_graphs(self, given: Any) -> Any:
        return given if self._is_computed(given) else self._compute(given)

    def __reduce__(self) -> tuple[Any, ...]:
        return PassThrough, (self._module(), self._fused_modules())


_watching: dict[int, weakref.WeakSet[FusedModules]] = {}
"""For the id of each parent: the objects that depend on the modules in its places."""


def _watch(parent: torch.nn.Module, fused_modules: FusedModules) -> None:
    """Count a change whenever a module is put into one of the parent's places."""
    if id(parent) not in _watching:
        _watching[id(parent)] = weakref.WeakSet()
        weakref.finalize(parent, _watching.pop, id(parent))
    _watching[id(parent)].add(fused_modules)


def _count_change(parent: torch.nn.Module, name: str, module: torch.nn.Module | None) -> None:
    if torch.compiler.is_dynamo_compiling():
        return  # modules that PyTorch makes for a graph of its own
    for each in _watching.get(id(parent), ()):
        each.count_change()
    if module is not None and _is_sequence(parent):
        fused_modules = vars(module).get("fused_modules")
        for each in {*_watching.get(id(module), ()), fused_modules} - {None}:
            each.note_sequence(parent)


def _is_sequence(module: torch.nn.Module) -> bool:
    # the class of scripted modules raises AttributeError for "forward"
    return getattr(type(module), "forward", None) is torch.nn.Sequential.forward


torch.nn.modules.module.register_module_module_registration_hook(_count_change)


def _gone() -> None:
    """Return None, as a weak reference does if its object is gone."""


def restore_forward_(module: torch.nn.Module) -> None:
    """Make the module compute by its class's ``forward`` again, if it was taken in."""
    if type(vars(module).get("forward")) is PassThrough:
        del vars(module)["forward"]


def _all_hooks(module: torch.nn.Module) -> Iterator[Any]:
    yield module._forward_pre_hooks
    yield from _output_hooks(module)


def _output_hooks(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the hooks that could see what a layer computes beside the convolution."""
    yield module._forward_hooks
    yield module._backward_pre_hooks
    yield module._backward_hooks
