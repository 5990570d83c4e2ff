"""A module's call as an operator of PyTorch's: one node of the graph that ``torch.compile`` makes,
which neither looks into it nor breaks the graph there."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tuner.errors import WrongArgument
from tuner.library.torch_transforms import quiet
from tuner.torch.beyond_kernels import beyond_kernels
from tuner.torch.functional import autocast
from tuner.torch.gradients.call import (
    Calls,
    Differentiated,
    Of,
    Saved,
    Some,
    computed,
    described,
    in_place,
    laid_out,
)
from tuner.torch.gradients.shortcut import GradientShortcut, Remembers, recognised

NAME = "convtune::module"
_SCHEMA = "(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int number) -> Tensor"
_SCHEMA_OF_GRADIENTS = (
    "(Tensor grad, Tensor input, Tensor weight, Tensor? bias, Tensor? residual, Tensor? output, "
    "bool[] needed, int number) -> Tensor[]"
)


class Called(Remembers, Protocol):
    """What a module gives the operator, which lays every output and gradient out: the graph is
    compiled for these strides."""

    def recognised(self, x: Tensor, weight: Tensor, bias: Some, in_graph: bool) -> Some:
        """The output for a call like the last one that a kernel has computed; else None."""

    def computed_in_graph(self, x: Tensor, weight: Tensor, bias: Some, residual: Some) -> Tensor:
        """The output, by a tuned kernel or by PyTorch, laid out."""

    def plain(self, x: Tensor, weight: Tensor, bias: Some, residual: Some) -> Tensor:
        """The output by PyTorch."""

    @property
    def only_plain(self) -> bool:
        """Whether its gradients are all PyTorch's."""


# begins anywhere: what PyTorch keeps of a compiled graph on disk must not meet another process's
_numbers = itertools.count(secrets.randbits(62))
_modules: WeakValueDictionary[int, Called] = WeakValueDictionary()


def numbered(module: Called) -> int:
    """The number by which the operator knows a module, for as long as it lives."""
    number = next(_numbers)
    _modules[number] = module
    return number


def call(x: Tensor, weight: Tensor, bias: Some, residual: Some, number: int) -> Tensor:
    """The module's output: its shape is looked up when the graph runs, not when it is compiled."""
    output: Tensor = torch.ops.convtune.module(x, weight, bias, residual, number)
    return output


def is_transformed() -> bool:
    """Whether it is differentiated forward, or one of torch.func's transforms is on."""
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return transformed or forward_ad._current_level >= 0


def needs_derivative(*tensors: Some) -> bool:
    """Whether there is something to derive by, backward or forward."""
    grad, forward = torch.is_grad_enabled(), forward_ad._current_level >= 0
    if not grad and not forward:
        return False
    given = [each for each in tensors if each is not None]
    return (grad and any(each.requires_grad for each in given)) or (
        forward and any(forward_ad.unpack_dual(each).tangent is not None for each in given)
    )


def _called(x: Tensor, weight: Tensor, bias: Some, residual: Some, number: int) -> Tensor:
    return _module(number).computed_in_graph(x, weight, bias, residual)


def _described(x: Tensor, weight: Tensor, bias: Some, residual: Some, number: int) -> Tensor:
    """Shape, dtype and strides of the output, for tensors without data."""
    module = _module(number)
    return module.laid_out(module.convolved(x, weight, bias), x)


def _differentiated(x: Tensor, weight: Tensor, bias: Some, residual: Some, number: int) -> Tensor:
    """With gradients if they are needed, which are an operator of the graph too; PyTorch's
    convolution, which has all derivatives, if it is transformed."""
    module = _module(number)
    y = None if residual is not None else module.recognised(x, weight, bias, in_graph=True)
    if y is not None:
        return y
    if not needs_derivative(x, weight, bias, residual):
        if is_plain(x, weight, bias, residual):
            return module.computed_in_graph(x, weight, bias, residual)
        return _below_autograd(number, x, weight, bias, residual)
    if module.only_plain or is_transformed():
        return module.laid_out(module.plain(x, weight, bias, residual), x)
    calls = Calls(
        module.activation,
        partial(_below_autograd, number),
        partial(_by_operator, number),
        partial(computed, module, tuned=False),
    )
    apply: Any = Differentiated.apply
    differentiated: Tensor = apply(calls, x, weight, bias, residual)
    return differentiated


def is_plain(*tensors: Some) -> bool:
    """Whether nobody listens below autograd. To be dispatched again takes as long as what is to be
    done, and what was recognised here is not recognised there."""
    if torch.is_grad_enabled() or not quiet(torch) or beyond_kernels(*tensors) is not None:
        return False
    return all(each is None or each.is_cpu or each.is_cuda for each in tensors)


def _below_autograd(number: int, x: Tensor, weight: Tensor, bias: Some, residual: Some) -> Tensor:
    with torch._C._AutoDispatchBelowAutograd():
        return call(x, weight, bias, residual, number)


def _cast(x: Tensor, weight: Tensor, bias: Some, residual: Some, number: int) -> Tensor:
    kind = x.device.type
    given: list[Any] = [*autocast.cast(kind, x, weight, bias, residual), number]
    with torch.autocast(kind, enabled=False):
        return call(*given)


def _by_operator(number: int, grad: Tensor, saved: Saved, needed: Of) -> Of:
    found = torch.ops.convtune.module_gradients.default(grad, *saved, list(needed), number)
    return in_place(found, needed)


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Some, residual: Some, output: Some,
    needed: list[bool], number: int,
) -> list[Tensor]:  # fmt: skip
    module, saved, of = _module(number), Saved(x, weight, bias, residual, output), Of(*needed)
    found = laid_out(module, computed(module, grad, saved, of), grad, x)
    made = GradientShortcut.of(module, grad, saved, of)
    if made is not None:
        module.gradient_shortcut = made
    return found


def _described_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Some, residual: Some, output: Some,
    needed: list[bool], number: int,
) -> list[Tensor]:  # fmt: skip
    return described(_module(number), grad, x, weight, needed)


def _differentiated_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Some, residual: Some, output: Some,
    needed: list[bool], number: int,
) -> list[Tensor]:  # fmt: skip
    """PyTorch's, which have derivatives, if there is something to derive by."""
    module = _module(number)
    known = recognised(module, grad, x, weight, bias, residual, needed)
    if known is not None:
        return known
    if needs_derivative(grad, x, weight, bias, residual):
        saved = Saved(x, weight, bias, residual, output)
        return laid_out(module, computed(module, grad, saved, Of(*needed), tuned=False), grad, x)
    if is_plain(grad, x, weight, bias, residual, output):
        return _gradients(grad, x, weight, bias, residual, output, needed, number)
    with torch._C._AutoDispatchBelowAutograd():
        found: list[Tensor] = torch.ops.convtune.module_gradients(
            grad, x, weight, bias, residual, output, needed, number
        )
    return found


def _recognised_first(operator: Any, recognise: Callable[..., Any]) -> None:
    """Compute recognised calls of the operator before PyTorch dispatches them: its way to a kernel
    in Python takes as long as all that such a call is asked. ``recognise`` gives None for others,
    and takes the module in the place of its number."""
    dispatched = operator._op

    def called(*given: Any, **named: Any) -> Any:
        module = None if named else _modules.get(given[-1])
        if module is not None and not _is_watched():
            found = recognise(module, *given[:-1])
            if found is not None:
                return found
        return dispatched(*given, **named)

    operator._op = called


def _output(module: Called, x: Tensor, weight: Tensor, bias: Some, residual: Some) -> Some:
    return None if residual is not None else module.recognised(x, weight, bias, in_graph=True)


def _recognised_gradients(
    module: Called, grad: Tensor, x: Tensor, weight: Tensor, bias: Some, residual: Some,
    output: Some, needed: list[bool],
) -> list[Tensor] | None:  # fmt: skip
    return recognised(module, grad, x, weight, bias, residual, needed)


def _is_watched() -> bool:
    """Whether somebody wants to see each operator that is called."""
    seen: bool = torch._C._is_torch_function_mode_enabled()
    return seen or torch.autograd.profiler._is_profiler_enabled


def _module(number: int) -> Called:
    module = _modules.get(number)
    if module is None:
        raise WrongArgument(f"{NAME} is called for module {number}, which is gone")
    return module


_library = torch.library.Library("convtune", "FRAGMENT")
_library.define(f"module{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
_recognised_first(torch.ops.convtune.module.default, _output)
_library.define(f"module_gradients{_SCHEMA_OF_GRADIENTS}", tags=(torch.Tag.pt2_compliant_tag,))
_recognised_first(torch.ops.convtune.module_gradients.default, _recognised_gradients)
for _kind in ("CPU", "CUDA"):
    _library.impl("module", _called, _kind)
    _library.impl("module", _cast, f"Autocast{_kind}")
    _library.impl("module_gradients", _gradients, _kind)
_library.impl("module", _differentiated, "Autograd")
_library.impl("module_gradients", _differentiated_gradients, "Autograd")
torch.library.register_fake(NAME, _described, lib=_library)
torch.library.register_fake(f"{NAME}_gradients", _described_gradients, lib=_library)
