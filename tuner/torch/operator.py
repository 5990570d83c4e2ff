"""A module's call as an operator of PyTorch's: one node of the graph that ``torch.compile`` makes,
which neither looks into it nor breaks the graph there."""

from __future__ import annotations

import itertools
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch

from tuner.errors import WrongArgument

NAME = "convtune::module"
_SCHEMA = "(Tensor input, Tensor weight, Tensor? bias, int number) -> Tensor"


class Called(Protocol):
    """What a module gives the operator. Both outputs have the strides of :meth:`laid_out`, which
    the graph is compiled for."""

    def computed(self, x: Any, weight: Any, bias: Any) -> Any:
        """The output, by a tuned kernel or by PyTorch."""

    def plain(self, x: Any, weight: Any, bias: Any) -> Any:
        """The output by PyTorch."""

    def laid_out(self, y: Any, x: Any) -> Any:
        """An output in the layout of its input."""


_numbers = itertools.count()
_modules: WeakValueDictionary[int, Called] = WeakValueDictionary()


def numbered(module: Called) -> int:
    """The number by which the operator knows a module, for as long as it lives."""
    number = next(_numbers)
    _modules[number] = module
    return number


def call(x: Any, weight: Any, bias: Any, number: int) -> Any:
    """The module's output: its shape is looked up when the graph runs, not when it is compiled."""
    return torch.ops.convtune.module(x, weight, bias, number)


def _called(x: Any, weight: Any, bias: Any, number: int) -> Any:
    module = _module(number)
    return module.laid_out(module.computed(x, weight, bias), x)


def _described(x: Any, weight: Any, bias: Any, number: int) -> Any:
    """Shape, dtype and strides of the output, for tensors without data."""
    module = _module(number)
    return module.laid_out(module.plain(x, weight, bias), x)


def _module(number: int) -> Called:
    module = _modules.get(number)
    if module is None:
        raise WrongArgument(f"{NAME} is called for module {number}, which is gone")
    return module


torch.library.define(NAME, _SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
for _kind in ("cpu", "cuda"):
    torch.library.impl(NAME, _kind, _called)
torch.library.register_fake(NAME, _described)
