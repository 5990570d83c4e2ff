"""Checks whether a PyTorch module can be replaced; transfers of its state, there and back."""

from __future__ import annotations

from functools import partial
from types import MethodType
from typing import Any

from torch.nn import Module, ModuleDict
from torch.nn.utils import parametrize

from tuner.errors import WrongArgument

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_STATE_HOOKS = (
    *("_state_dict_hooks", "_state_dict_pre_hooks"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
_SET_UP = frozenset(
    {
        *("__init__", "reset_parameters", "extra_repr"),
        *("__module__", "__qualname__", "__doc__", "__annotations__", "__annotate_func__"),
        *("__firstlineno__", "__static_attributes__"),
    }
)
"""Attributes that a subclass may define without computing anything else than its base."""
_PARTS = frozenset({"weight", "bias", "parametrizations"})
_LEFT = "leave this one to PyTorch"


def check(module: Module, expected: type[Module], *also: str) -> None:
    """Raise WrongArgument unless a replacement can compute all that the module does.

    The module's class must be ``expected``, or a subclass that does not change what is computed.
    ``also`` names further subclasses, of packages that need not be installed. The module may be
    parametrised. It must have no ``forward`` of its own, no hooks, and no parameters, buffers or
    submodules beside weight and bias.
    """
    kind = kind_of(module)
    known = kind.__name__ in also and issubclass(kind, expected)
    if not known and not _only_sets_up(kind, expected):
        raise WrongArgument(
            f"{module} is a {kind.__module__}.{kind.__qualname__}, which may compute something "
            f"other than torch.nn.{expected.__name__}; {_LEFT}"
        )
    own = {"forward", "_conv_forward"} & vars(module).keys()
    if own:
        raise WrongArgument(f"{module} has a {own.pop()} of its own; {_LEFT}")
    hooks = hooks_of(module)
    if hooks:
        names = ", ".join(getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks)
        raise WrongArgument(
            f"{module} has hooks ({names}), which a replacement would not call; remove them "
            "(remove_weight_norm, remove_spectral_norm, prune.remove), or use those of "
            "torch.nn.utils.parametrizations"
        )
    more = [*module._parameters, *module._buffers, *module._modules, *_parametrizations(module)]
    if beside := [name for name in more if name not in _PARTS]:
        raise WrongArgument(f"{module} has {', '.join(beside)} beside its weight and bias; {_LEFT}")
    for name in ("weight", "bias"):
        if name not in module._parameters and not parametrize.is_parametrized(module, name):
            raise WrongArgument(f"the {name} of {module} is not one of its parameters; {_LEFT}")


def _only_sets_up(kind: type[Module], expected: type[Module]) -> bool:
    """Return whether ``kind`` is ``expected``, or adds to it only what sets an instance up."""
    if not issubclass(kind, expected):
        return False
    between = kind.__mro__[: kind.__mro__.index(expected)]
    return all(vars(each).keys() <= _SET_UP for each in between)


def kind_of(module: Module) -> type[Module]:
    """Return the module's class, without the class that a parametrisation puts before it."""
    kind: type[Module] = parametrize.type_before_parametrizations(module)
    return kind


def hooks_of(module: Module) -> list[Any]:
    """Return the module's hooks, which a replacement would not call."""
    return [hook for name in _HOOKS for hook in getattr(module, name).values()]


def tensors_of(module: Module) -> tuple[Any, Any]:
    """Return the module's weight and bias, as they are in evaluation mode.

    In training mode, some parametrisations change their state whenever they are read.
    """
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        return module.weight, module.bias
    finally:
        for each, training in modes:
            each.training = training


def take_over(module: Module, replacement: Module) -> None:
    """Give the replacement the module's parametrisations, order of parameters, mode, constants and
    state hooks.

    The replacement was made with the module's weight and bias. The constants are attributes that
    describe the shape, because a model may read ``conv.stride[0]``. They can't be changed.
    """
    names: Any = module.__constants__
    for name in names:
        setattr(replacement, name, getattr(module, name))
    replacement.training = module.training
    _share_parametrizations(module, replacement)
    own = replacement._parameters
    for name in module._parameters:
        own[name] = own.pop(name)
    vars(replacement)["fixed"] = frozenset(names)
    for name in _STATE_HOOKS:
        vars(replacement)[name] = vars(module)[name]


def hand_back(replacement: Module, module: Module) -> None:
    """Give the module its replacement's parameters, parametrisations, buffers, hooks and mode, and
    a ``forward`` that was set on it."""
    module.__class__ = kind_of(module)
    module._modules.pop("parametrizations", None)
    own, its = vars(module), vars(replacement)
    for name in vars(Module()).keys() - {"_modules"}:
        own[name] = its[name]
    for name in {"weight", "bias"} & its.keys():  # no parameter if a hook computes it for each call
        own[name] = its[name]
    _share_parametrizations(replacement, module)
    if "forward" in its:
        _hand_back_forward(replacement, module)


def _hand_back_forward(replacement: Module, module: Module) -> None:
    """Give the module the ``forward`` that was set on its replacement.

    It may call the replacement's former ``forward``, which from now on computes as the module's
    class does.
    """
    its = vars(replacement)
    forward = its["forward"]
    bound = isinstance(forward, MethodType) and forward.__self__ is replacement
    vars(module)["forward"] = MethodType(forward.__func__, module) if bound else forward
    its["fused_modules"] = None
    its["call_with"] = partial(_call, module)
    # a copy, because PyTorch removes a parameter of the module when it parametrises it
    its["_parameters"] = dict(its["_parameters"])


def _call(module: Any, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
    """Return what the module's class computes, in the place of a layer's ``call_with``."""
    y = type(module).forward(module, x)
    return y if residual is None else y + residual


def _parametrizations(module: Module) -> Any:
    """Return the module's parametrisations, by the names of the tensors that they make."""
    return module.parametrizations if parametrize.is_parametrized(module) else {}


def _share_parametrizations(module: Module, other: Module) -> None:
    """Let another module share the module's own parametrisations, with their state.

    PyTorch's own transfer registers them anew, and computes their state from the weight. An
    orthogonal parametrisation would then begin at another matrix, and a spectral norm in training
    mode would go on iterating.
    """
    lists = _parametrizations(module)
    if not lists:
        return
    parametrize._inject_new_class(other)
    for name in lists:
        other._parameters.pop(name, None)
        parametrize._inject_property(other, name)
    # a dictionary of its own, because a parametrisation may be removed from one module only
    held = other.parametrizations = ModuleDict(lists)
    held.training = lists.training


def require(module: Module, **expected: Any) -> None:
    """Raise WrongArgument unless each named attribute of the module has the value given."""
    for name, value in expected.items():
        if getattr(module, name) != value:
            raise WrongArgument(
                f"{module} has {name} {getattr(module, name)}, and the operator takes {value}; "
                f"{_LEFT}"
            )
