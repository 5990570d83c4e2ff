"""The operators by name, for programs that call PyTorch's functions and no modules:

    import torch
    import tuner.torch
    from tuner.client.client import Client

    tuner.torch.use(Client("http://gpu-host:8000"))
    with torch.no_grad():
        y = torch.ops.convtune.depthwise_conv2d(x, weight, bias, padding=1, activation="relu6")

``conv1d`` and ``depthwise_conv2d`` take the arguments of torch.nn.functional's convolutions, in the
same order. As keyword arguments they also take a ``residual`` of the output's shape, an
``activation`` and a ``max_error``. Each side may have its own ``padding``: (before, behind), or
(top, left, bottom, right). A causal conv1d has the padding ((N - 1) * dilation, 0). Input, residual
and output may have their channels last in memory.

A shape is looked up at its first call, and the answer is kept. If gradients are needed, they are
looked up too. As in a module, PyTorch computes if nothing is tuned or PyTorch was faster.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from templates.epilogue import Activation
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.library.torch_transforms import is_inactive
from tuner.torch import arguments
from tuner.torch.functional import activations, autocast, convolutions
from tuner.torch.gradients.by_name import CallArguments, OperatorGradients
from tuner.torch.lookup import bounded
from tuner.torch.modules import Conv1d, DepthwiseConv2d
from tuner.torch.pytorch_only import NEEDS_GRAD, needs_derivative, why_no_library, why_pytorch
from tuner.torch.shortcut import Shortcut
from tuner.torch.tuned_module import Tuned

log = logging.getLogger("tuner.torch.operators")

_SCHEMA = (
    "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{n}] stride=1, "
    "SymInt[{n}] padding=0, SymInt[{n}] dilation=1, {groups}, *, Tensor? residual=None, "
    "str activation='none', float? max_error=None) -> Tensor"
)
_STEPS = {"stride", "padding", "dilation"}
_NUMBERS = (int, torch.SymInt)
Ints = Sequence[int]
_source: Source | None = None


class _How(NamedTuple):
    """The arguments of a call other than tensors; ``padding`` has a number for each side."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    activation: Activation


def use(source: Source | None) -> None:
    """Set where the operators ``torch.ops.convtune.*`` take kernels from, in the whole process.

    ``source`` is a Client or a Local database. If it is None, PyTorch computes everything. Raises
    WrongArgument for any other object. All shapes are looked up anew.
    """
    global _source  # noqa: PLW0603  # of the process, as torch.backends' switches are
    arguments.source(source, or_none=", or None for PyTorch alone")
    _source = source
    for operator in (_CONV1D, _DEPTHWISE):
        operator.forget()


class _Operator:
    """An operator that is registered with PyTorch under its name.

    PyTorch's dispatcher passes integers as lists, and leaves out the last arguments if they have
    their defaults.
    """

    def __init__(self, kind: type[Conv1d | DepthwiseConv2d], axes: int, groups: str) -> None:
        self.kind, self._axes = kind, axes
        self._known_how = lru_cache(maxsize=1024)(self._checked)
        self.forget()
        name, library = kind.operator, torch.library.Library("convtune", "FRAGMENT")
        schema = _SCHEMA.format(n=axes, groups=groups)
        library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        for device in ("CPU", "CUDA"):
            library.impl(name, self._dispatched, device)
            library.impl(name, self._cast, f"Autocast{device}")
        library.impl(name, self._differentiated, "Autograd")
        library.impl(name, self._by_pytorch, "FuncTorchBatchedDecomposition")
        torch.library.register_fake(f"convtune::{name}", self._by_pytorch, lib=library)
        self._gradients = OperatorGradients(self, library)
        self._library = library  # held, because the registration ends with it
        packet: Any = getattr(torch.ops.convtune, name)
        self._call = packet.default
        for each in (packet, packet.default):
            _take_numbers(each, axes)
        torch.jit._builtins._register_builtin(
            packet._op, f"convtune::{name}"
        )  # for torch.jit.script

    def forget(self) -> None:
        """Have every shape looked up again."""
        self._layers: dict[Any, Tuned | None] = {}
        self._shortcuts: dict[Any, Shortcut | None] = {}

    def _computed(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = (1,),
        padding: Ints = (0,), dilation: Ints = (1,), groups: int | None = None, *,
        residual: Tensor | None = None, activation: str = "none", max_error: float | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the output by a tuned kernel if there is one, else by PyTorch.

        Calls with a weight of the same shape and the same other arguments share a layer. The layer
        remembers what was found for each shape, layout, dtype and device of the input.
        """
        shortcuts = self._shortcuts  # read once: use() in another thread may begin new ones
        layer = self.layer_of(
            x, weight, bias is not None, stride, padding, dilation, groups, activation, max_error
        )
        if layer is None:
            return self._by_pytorch(
                x, weight, bias, stride, padding, dilation, groups,
                residual=residual, activation=activation,
            )  # fmt: skip
        if residual is not None:
            how = self._how(stride, padding, dilation, activation)
            steps = how.stride, how.padding, how.dilation
            _must_fit(residual, convolutions.output_shape(x, weight, *steps))
        trained = needs_derivative(x, weight, bias, residual)
        y: Any = (layer.with_gradients if trained else layer.by_kernel)(x, weight, bias, residual)
        if isinstance(y, str):
            y = self.kind.in_layout_of(layer.by_pytorch(x, weight, bias, residual, y), x)
        elif residual is None and not trained:
            named = stride, padding, dilation, groups, activation, max_error
            key = _shortcut_key(x, weight, bias, *named)
            bounded.put(shortcuts, key, layer.shortcut(x, weight, bias, y))
        return y  # type: ignore[no-any-return]

    def _recognised(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = (1,),
        padding: Ints = (0,), dilation: Ints = (1,), groups: int | None = None, *,
        residual: Tensor | None = None, activation: str = "none", max_error: float | None = None,
    ) -> Tensor | None:  # fmt: skip
        """Return the output if the call is like one that a kernel has computed, else None."""
        key = _shortcut_key(
            x, weight, bias, stride, padding, dilation, groups, activation, max_error
        )
        try:
            shortcut = self._shortcuts.get(key)
        except TypeError:  # a graph's symbolic integers have no hash
            return None
        if shortcut is None or residual is not None:
            return None
        y: Tensor | None = shortcut(x, weight, bias)
        return y

    def layer_of(
        self, x: Tensor, weight: Tensor, has_bias: bool, stride: Ints, padding: Ints,
        dilation: Ints, groups: int | None, activation: str, max_error: float | None,
    ) -> Tuned | None:  # fmt: skip
        """Return the layer for calls with these arguments, made at the first one.

        Return None if only PyTorch can compute them. Raises WrongArgument.
        """
        stride, padding, dilation = tuple(stride), tuple(padding), tuple(dilation)
        groups = self._groups(x) if groups is None else groups
        key = (
            weight.shape, has_bias, stride, padding, dilation, groups, activation, max_error
        )  # fmt: skip
        layers = self._layers  # read once: use() in another thread may begin new ones
        try:
            return layers[key]
        except KeyError:
            how = self._how(stride, padding, dilation, activation)
            layer = layers[key] = self._layer(how, weight, has_bias, groups, max_error)
            return layer

    def _by_pytorch(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = (1,),
        padding: Ints = (0,), dilation: Ints = (1,), groups: int | None = None, *,
        residual: Tensor | None = None, activation: str = "none", max_error: float | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the output by PyTorch's own operators, which have derivatives and transforms.

        From tensors without data this gives the output's shape, dtype and strides.
        """
        how = self._how(stride, padding, dilation, activation)
        self._must_be_weight(weight)
        convolved = getattr(convolutions, self.kind.operator)
        groups = self._groups(x) if groups is None else groups
        y = convolved(x, weight, bias, how.stride, how.padding, how.dilation, groups)
        if residual is not None:
            _must_fit(residual, tuple(y.shape))
            y = y + residual
        result: Tensor = self.kind.in_layout_of(activations.applied(how.activation, y), x)
        return result

    def _dispatched(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, *how: Any,
        residual: Tensor | None = None, **named: Any,
    ) -> Tensor:  # fmt: skip
        y = self._recognised(x, weight, bias, *how, residual=residual, **named)
        if y is not None:
            return y
        by_library = why_pytorch(x, weight, bias, residual) is None
        compute = self._computed if by_library else self._by_pytorch
        return compute(x, weight, bias, *how, residual=residual, **named)

    def _differentiated(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, *how: Any,
        residual: Tensor | None = None, **named: Any,
    ) -> Tensor:  # fmt: skip
        y = self._recognised(x, weight, bias, *how, residual=residual, **named)
        if y is not None:
            return y
        reason = why_no_library(x, weight, bias, residual)
        if (x.is_cpu or x.is_cuda) and reason in (None, NEEDS_GRAD) and is_inactive(torch):
            # nothing below autograd listens, and another dispatch takes as long as the work itself
            return self._computed(x, weight, bias, *how, residual=residual, **named)

        def below(*given: Tensor | None) -> Tensor:
            with torch._C._AutoDispatchBelowAutograd():
                y: Tensor = self._call(*given[:3], *how, residual=given[3], **named)
            return y

        if not needs_derivative(x, weight, bias, residual):
            return below(x, weight, bias, residual)
        given = x, weight, bias, residual
        terms = self._terms(x, *how, **named)
        y = self._gradients.of(below, given, terms)
        if y is None:
            y = self._by_pytorch(x, weight, bias, *how, residual=residual, **named)
        return y

    def _terms(
        self, x: Tensor, stride: Ints = (1,), padding: Ints = (0,), dilation: Ints = (1,),
        groups: int | None = None, *, activation: str = "none", max_error: float | None = None,
    ) -> CallArguments:  # fmt: skip
        how = self._how(stride, padding, dilation, activation)
        groups = self._groups(x) if groups is None else groups
        return how.stride, how.padding, how.dilation, groups, how.activation, max_error

    def _cast(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, *how: Any,
        residual: Tensor | None = None, **named: Any,
    ) -> Tensor:  # fmt: skip
        """Return the output under autocast, in its dtype, as PyTorch's convolutions do."""
        kind = x.device.type
        given: list[Any] = autocast.cast(kind, x, weight, bias, residual)
        with torch.autocast(kind, enabled=False):
            y: Tensor = self._call(*given[:3], *how, residual=given[3], **named)
        return y

    def _layer(
        self, how: _How, weight: Tensor, has_bias: bool, groups: int, max_error: float | None
    ) -> Tuned | None:
        """Return a new layer for calls with these arguments. If only PyTorch can compute them, log
        why and return None."""
        self._must_be_weight(weight)
        if _source is None:
            _log_once(self.kind.operator, "no source is set; call tuner.torch.use(source)")
            return None
        alike = len(set(how.stride)) == len(set(how.dilation)) == 1
        if not alike:
            _log_once(self.kind.operator, "stride or dilation differ between the axes")
            return None
        shape = weight.shape
        given = (
            weight.new_empty(shape, device="meta"),
            weight.new_empty(shape[:1], device="meta") if has_bias else None,
        )
        of: dict[str, Any] = {
            "source": _source,
            "stride": how.stride[0],
            "padding": how.padding,
            "dilation": how.dilation[0],
            "activation": how.activation,
            "max_error": max_error,
        }
        try:
            if self.kind is Conv1d:
                return Conv1d(*given, **of, kind="correlate", groups=groups)
            return DepthwiseConv2d(*given, **of, channels=groups)
        except WrongArgument as error:
            _log_once(self.kind.operator, str(error))
            return None

    def _groups(self, x: Tensor) -> int:
        """Return the default of ``groups``: 1 for conv1d, as in PyTorch, else the channels."""
        return 1 if self._axes == 1 or x.ndim < 3 else x.shape[-3]

    def _must_be_weight(self, weight: Tensor) -> None:
        if weight.ndim == self._axes + 2 and (self._axes == 1 or weight.shape[1] == 1):
            return
        form = "(F, C / groups, N)" if self._axes == 1 else "(C * multiplier, 1, KH, KW)"
        raise WrongArgument(
            f"weight has shape {tuple(weight.shape)}, and must have {form}; for other groups call "
            f"torch.nn.functional.conv{self._axes}d"
        )

    def _how(self, stride: Ints, padding: Ints, dilation: Ints, activation: str) -> _How:
        """Return the arguments with a number for each axis or side. Raises WrongArgument."""
        given = tuple(stride), tuple(padding), tuple(dilation), activation
        try:
            return self._known_how(*given)
        except TypeError:  # a graph's symbolic integers have no hash
            return self._checked(*given)

    def _checked(self, stride: Ints, padding: Ints, dilation: Ints, activation: str) -> _How:
        axes, sides = self._axes, self._axes * 2
        for name, values, least, counts in (
            ("stride", stride, 1, (1, axes)),
            ("padding", padding, 0, (1, axes, sides)),
            ("dilation", dilation, 1, (1, axes)),
        ):
            if len(values) not in counts or min(values) < least:
                many = " or ".join(map(str, sorted(set(counts))))
                raise WrongArgument(
                    f"{name} is {list(values)}, and must be {many} whole numbers of {least} or more"
                )
        if len(padding) < sides:
            padding = [*padding] * (sides // len(padding))
        return _How(
            tuple(stride) * (axes // len(stride)),
            tuple(padding),
            tuple(dilation) * (axes // len(dilation)),
            activations.known(activation),
        )


def _take_numbers(operator: Any, axes: int) -> None:
    """Make an operator accept one number in place of a list with a number for each axis.

    ``torch.ops`` allows that for lists of int, but not for lists of SymInt.
    """
    dispatched = operator._op

    def called(*given: Any, **named: Any) -> Any:
        steps = [[each] * axes if isinstance(each, _NUMBERS) else each for each in given[3:6]]
        for name in named.keys() & _STEPS:
            if isinstance(named[name], _NUMBERS):
                named[name] = [named[name]] * axes
        return dispatched(*given[:3], *steps, *given[6:], **named)

    operator._op = called


def _shortcut_key(x: Tensor, weight: Tensor, bias: Tensor | None, *named: Any) -> tuple[Any, ...]:
    """Return the key of a call's shortcut, which then checks the tensors itself."""
    stride, padding, dilation, *others = named
    ways = tuple(stride), tuple(padding), tuple(dilation)
    return x.shape, weight.shape, bias is None, *ways, *others


def _must_fit(residual: Tensor, shape: tuple[int, ...]) -> None:
    """Raise WrongArgument unless the residual has the output's ``shape``: it is not broadcast."""
    if residual.shape != shape:
        raise WrongArgument(
            f"residual has shape {tuple(residual.shape)}, and must have the output's, {shape}; "
            "expand it to that"
        )


@cache
def _log_once(operator: str, reason: str) -> None:
    """Log why PyTorch computes an operator, once for each reason."""
    log.warning("%s is computed by pytorch: %s", operator, reason)


_CONV1D = _Operator(Conv1d, 1, "SymInt groups=1")
_DEPTHWISE = _Operator(DepthwiseConv2d, 2, "SymInt? groups=None")
