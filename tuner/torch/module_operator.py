"""A module's call as an operator of PyTorch's: one node of the graph that ``torch.compile`` makes,
which neither looks into it nor breaks the graph there."""

from __future__ import annotations

import itertools
import secrets
from typing import Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tuner.errors import WrongArgument

Some = Tensor | None

NAME = "convtune::module"
_SCHEMA = "(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int number) -> Tensor"


class Called(Protocol):
    """What a module gives the operator, which lays every output out: the graph is compiled for
    these strides."""

    def computed_in_graph(self, x: Tensor, weight: Tensor, bias: Some, residual: Some) -> Tensor:
        """The output, by a tuned kernel or by PyTorch, laid out."""

    def plain(self, x: Tensor, weight: Tensor, bias: Some, residual: Some) -> Tensor:
        """The output by PyTorch."""

    def convolved(self, x: Tensor, weight: Tensor, bias: Some) -> Tensor:
        """A tensor of the output's shape and dtype, by PyTorch."""

    def laid_out(self, y: Tensor, x: Tensor) -> Tensor:
        """An output in the layout of its input."""


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
    """PyTorch's convolution, which has derivatives, if there is something to derive by."""
    if needs_derivative(x, weight, bias, residual):
        module = _module(number)
        return module.laid_out(module.plain(x, weight, bias, residual), x)
    with torch._C._AutoDispatchBelowAutograd():
        return call(x, weight, bias, residual, number)


def _module(number: int) -> Called:
    module = _modules.get(number)
    if module is None:
        raise WrongArgument(f"{NAME} is called for module {number}, which is gone")
    return module


_library = torch.library.Library("convtune", "FRAGMENT")
_library.define(f"module{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
for _kind in ("CPU", "CUDA"):
    _library.impl("module", _called, _kind)
_library.impl("module", _differentiated, "Autograd")
torch.library.register_fake(NAME, _described, lib=_library)
