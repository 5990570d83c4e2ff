"""What of PyTorch's modules can be replaced: the class, or one that only sets it up otherwise, with
all that computes its output."""

from __future__ import annotations

from typing import Any

from torch.nn import Module
from torch.nn.utils import parametrize

from tuner.errors import WrongArgument

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_SET_UP = frozenset(
    {
        *("__init__", "reset_parameters", "extra_repr"),
        *("__module__", "__qualname__", "__doc__", "__annotations__", "__annotate_func__"),
        *("__firstlineno__", "__static_attributes__"),
    }
)
"""What a subclass may define that computes as its base does."""
_PARTS = frozenset({"weight", "bias", "parametrizations"})
_LEFT = "leave this one to PyTorch"


def check(module: Module, expected: type[Module], *also: str) -> None:
    """Raises WrongArgument unless the module is an ``expected``, or of a class that only sets one
    up, parametrised perhaps, whose output is that of its class, its weight and its bias alone; or
    of one of the names ``also``, for classes of packages that need not be here."""
    kind = kind_of(module)
    known = kind.__name__ in also and issubclass(kind, expected)
    if not known and not _only_sets_up(kind, expected):
        raise WrongArgument(
            f"{module} is a {kind.__module__}.{kind.__qualname__}, which may compute something "
            f"else than torch.nn.{expected.__name__}; {_LEFT}"
        )
    own = {"forward", "_conv_forward"} & vars(module).keys()
    if own:
        raise WrongArgument(f"{module} has a {own.pop()} of its own; {_LEFT}")
    hooks = hooks_of(module)
    if hooks:
        names = ", ".join(getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks)
        raise WrongArgument(
            f"{module} has hooks ({names}), which a replacement would not call; remove them "
            "(remove_weight_norm, remove_spectral_norm, prune.remove), or take those of "
            "torch.nn.utils.parametrizations"
        )
    more = [*module._parameters, *module._buffers, *module._modules]
    if beside := [name for name in more if name not in _PARTS]:
        raise WrongArgument(f"{module} has {', '.join(beside)} beside its weight and bias; {_LEFT}")
    for name in ("weight", "bias"):
        if name not in module._parameters and not parametrize.is_parametrized(module, name):
            raise WrongArgument(f"the {name} of {module} is not one of its parameters; {_LEFT}")


def _only_sets_up(kind: type[Module], expected: type[Module]) -> bool:
    """Whether that class, or one between, defines nothing that its instances compute with."""
    if not issubclass(kind, expected):
        return False
    between = kind.__mro__[: kind.__mro__.index(expected)]
    return all(vars(each).keys() <= _SET_UP for each in between)


def kind_of(module: Module) -> type[Module]:
    """The module's class, but for parametrisations."""
    kind: type[Module] = parametrize.type_before_parametrizations(module)
    return kind


def hooks_of(module: Module) -> list[Any]:
    """What is called with the module, and would not be with a replacement."""
    return [hook for name in _HOOKS for hook in getattr(module, name).values()]


def take_over(module: Module, replacement: Module) -> None:
    """Give the replacement, made with the module's weight and bias, the module's parametrisations
    and mode, and what says of its shape: a model may ask for ``conv.stride[0]``."""
    names: Any = module.__constants__
    for name in names:
        setattr(replacement, name, getattr(module, name))
    replacement.train(module.training)  # in training mode, to register a spectral norm changes it
    parametrize.transfer_parametrizations_and_params(module, replacement)
    vars(replacement)["fixed"] = frozenset(names)


def hand_back(replacement: Module, module: Module) -> None:
    """Give the module what its replacement has now: parameters and what makes them, hooks and
    mode."""
    module.__class__ = kind_of(module)
    module._modules.pop("parametrizations", None)
    own, its = vars(module), vars(replacement)
    for name in vars(Module()).keys() - {"_modules"}:
        own[name] = its[name]
    for name in {"weight", "bias"} & its.keys():  # made by a hook before each call
        own[name] = its[name]
    parametrize.transfer_parametrizations_and_params(replacement, module)


def only(module: Module, **expected: Any) -> None:
    """Raises WrongArgument if the module has another value."""
    for name, value in expected.items():
        if getattr(module, name) != value:
            raise WrongArgument(
                f"{module} has {name} {getattr(module, name)}, and the operator {value}; {_LEFT}"
            )
