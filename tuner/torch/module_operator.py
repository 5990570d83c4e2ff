"""The operator ``convtune::module``: a layer's call in a graph of ``torch.compile``.

It is one node: ``torch.compile`` neither looks into it nor breaks the graph there. The gradients of
the call are a second operator, ``convtune::module_gradients``.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from tuner.errors import WrongArgument
from tuner.torch.functional import autocast
from tuner.torch.gradients.call import Differentiated
from tuner.torch.gradients.graph_operator import GradientsOperator
from tuner.torch.gradients.shortcut import LayerWithShortcut, recognised
from tuner.torch.pytorch_only import is_plain, is_transformed, needs_derivative

NAME = "convtune::module"
_SCHEMA = (
    "(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, Tensor? norm_weight, "
    "Tensor? norm_bias, Tensor? norm_mean, Tensor? norm_variance, int number) -> Tensor"
)


OfNorm = Sequence[Tensor | None]
"""The weight, bias, running mean and running variance of a batch norm that a module has taken in,
or no tensors. The graph computes with these values, which may differ from the norm's own."""
NO_NORM: OfNorm = (None,) * 4


class OperatorModule(LayerWithShortcut, Protocol):
    """A module, as the operator needs it.

    The graph is compiled for the strides that the operator describes, so every output and gradient
    is laid out with these strides.
    """

    def recognised(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, in_graph: bool, of_norm: OfNorm
    ) -> Tensor | None:
        """Return the output if the call is like the last one that a kernel computed, else None."""

    def computed_in_graph(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
        of_norm: OfNorm,
    ) -> Tensor:  # fmt: skip
        """Return the output, by a tuned kernel or by PyTorch, with the strides described."""

    def plain(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
        of_norm: OfNorm,
    ) -> Tensor:  # fmt: skip
        """Return the output by PyTorch alone."""

    @property
    def only_pytorch(self) -> bool:
        """Whether PyTorch computes all gradients."""


# the first is random: a graph that PyTorch keeps on disk must not find another process's module
_numbers = itertools.count(secrets.randbits(62))
_modules: WeakValueDictionary[int, OperatorModule] = WeakValueDictionary()


def register(module: OperatorModule) -> int:
    """Return a new number, by which the operator finds the module while the module lives."""
    number = next(_numbers)
    _modules[number] = module
    return number


def call(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    of_norm: OfNorm, number: int,
) -> Tensor:  # fmt: skip
    """Return the output of the module with that number, by the operator.

    The shape is looked up when the graph runs, not when it is compiled.
    """
    output: Tensor = torch.ops.convtune.module(
        x, weight, bias, residual, *(of_norm or NO_NORM), number
    )
    return output


def _compute(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    of_norm: OfNorm, number: int,
) -> Tensor:  # fmt: skip
    return _module(number).computed_in_graph(x, weight, bias, residual, of_norm)


def _fake_output(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    of_norm: OfNorm, number: int,
) -> Tensor:  # fmt: skip
    """Return the output without data: its shape, dtype and strides."""
    module = _module(number)
    return module.in_layout_of(module.convolved(x, weight, bias), x)


def _differentiated(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    of_norm: OfNorm, number: int,
) -> Tensor:  # fmt: skip
    """Return the output, with gradients if they are needed.

    The gradients are an operator of the graph too. If the call is transformed or complex, PyTorch's
    convolution computes it, because it has all derivatives.
    """
    module = _module(number)
    y = _output(module, x, weight, bias, residual, *of_norm)
    if y is not None:
        return y
    if not needs_derivative(x, weight, bias, residual, *of_norm):
        if is_plain(x, weight, bias, residual, *of_norm):
            return module.computed_in_graph(x, weight, bias, residual, of_norm)
        return _below_autograd(number, of_norm, x, weight, bias, residual)
    if module.only_pytorch or is_transformed(x, weight, bias, residual) or x.is_complex():
        return module.in_layout_of(module.plain(x, weight, bias, residual, of_norm), x)
    below = partial(_below_autograd, number, of_norm)
    calls = _gradients.calls(module.activation, below, number)
    apply: Any = Differentiated.apply
    differentiated: Tensor = apply(calls, x, weight, bias, residual)
    return differentiated


def _mapped(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    of_norm: OfNorm, number: int,
) -> Tensor:  # fmt: skip
    """Return the output under ``torch.vmap``, by PyTorch's operators, which map the tensors."""
    return _module(number).plain(x, weight, bias, residual, of_norm)


def _below_autograd(
    number: int, of_norm: OfNorm,
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    with torch._C._AutoDispatchBelowAutograd():
        return call(x, weight, bias, residual, of_norm, number)


def _cast(
    x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None,
    of_norm: OfNorm, number: int,
) -> Tensor:  # fmt: skip
    kind = x.device.type
    cast: Any = autocast.cast(kind, x, weight, bias, residual)
    x, weight, bias, residual = cast
    with torch.autocast(kind, enabled=False):
        return call(x, weight, bias, residual, of_norm, number)


def _recognised_first(operator: Any, recognise: Callable[..., Any]) -> None:
    """Make the operator compute recognised calls before PyTorch dispatches them.

    PyTorch's way to a kernel in Python takes as long as all checks of such a call. ``recognise``
    takes the module in place of its number, and returns None for a call that it does not recognise.
    """
    dispatched = operator._op

    def called(*given: Any, **named: Any) -> Any:
        module = None if named else _modules.get(given[-1])
        if module is not None and not _is_watched():
            found = recognise(module, *given[:-1])
            if found is not None:
                return found
        return dispatched(*given, **named)

    operator._op = called


def _output(
    module: OperatorModule, x: Tensor, weight: Tensor, bias: Tensor | None,
    residual: Tensor | None, *of_norm: Tensor | None,
) -> Tensor | None:  # fmt: skip
    if residual is not None:
        return None
    return module.recognised(x, weight, bias, in_graph=True, of_norm=of_norm)


def _recognised_gradients(
    module: OperatorModule, grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None,
    residual: Tensor | None, output: Tensor | None, needed: list[bool],
) -> list[Tensor] | None:  # fmt: skip
    return recognised(module, grad, x, weight, bias, residual, needed)


def _is_watched() -> bool:
    """Return whether a profiler or a mode of torch functions wants to see every call."""
    seen: bool = torch._C._is_torch_function_mode_enabled()
    return seen or torch.autograd.profiler._is_profiler_enabled


def _module(number: int) -> OperatorModule:
    module = _modules.get(number)
    if module is None:
        raise WrongArgument(f"{NAME} is called for module {number}, which is gone")
    return module


def _of_all_tensors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function of the operator's arguments, which calls ``function`` with the tensors of a
    norm as one argument."""

    def called(
        x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, *others: Any
    ) -> Tensor:
        *of_norm, number = others
        has_norm = any(each is not None for each in of_norm)
        return function(x, weight, bias, residual, of_norm if has_norm else (), number)

    return called


_library = torch.library.Library("convtune", "FRAGMENT")
_library.define(f"module{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
_recognised_first(torch.ops.convtune.module.default, _output)
_gradients = GradientsOperator(
    _library, "module", "int number", lambda *given: _module(given[-1]), _module
)
_recognised_first(_gradients.call, _recognised_gradients)
for _kind in ("CPU", "CUDA"):
    _library.impl("module", _of_all_tensors(_compute), _kind)
    _library.impl("module", _of_all_tensors(_cast), f"Autocast{_kind}")
_library.impl("module", _of_all_tensors(_differentiated), "Autograd")
_library.impl("module", _of_all_tensors(_mapped), "FuncTorchBatchedDecomposition")
torch.library.register_fake(NAME, _of_all_tensors(_fake_output), lib=_library)
