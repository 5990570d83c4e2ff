"""The base class of PyTorch modules that call tuned kernels."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar, Literal, Self

import torch

from templates.argument import Argument
from templates.epilogue import Activation
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.library.load import Library
from tuner.torch import arguments, module_operator
from tuner.torch.functional import activations, autocast
from tuner.torch.functional.folding import NORM_NEEDS_GRAD, NORM_REPLACED, BatchNorm
from tuner.torch.gradients import call as gradients
from tuner.torch.gradients.shortcut import GradientShortcut
from tuner.torch.in_place import InPlace
from tuner.torch.lookup import bounded
from tuner.torch.lookup.reason_log import ReasonLog
from tuner.torch.lookup.source_lookup import Found
from tuner.torch.lookup.workload_lookup import LookupMixin, Purpose, SharedSource
from tuner.torch.pytorch_only import NEEDS_GRAD, is_transformed, not_none, trace_call, why_pytorch
from tuner.torch.shortcut import AxisOrder, Shortcut


class Tuned(InPlace, LookupMixin):
    """A convolution that a tuned kernel computes if there is one for the shape, and PyTorch if not.

    ``source`` is a Client or a Local database, and ``max_error`` the accuracy that is asked for, by
    default the dtype's. ``activation`` comes last, after the bias and a residual. A shape is looked
    up at its first call: with bias, residual and activation in the kernel or, if no such kernel is
    tuned, without them. The answer is kept until :meth:`forget`, or until ``source``, ``max_error``
    or ``activation`` is set.

    ``used`` says what computed the last output, "tuned" or "pytorch", and ``reason`` why. Each
    reason is logged once for all layers of a model. If gradients are needed, a tuned kernel or
    PyTorch computes each: the output, the input's gradient and the weight's. ``used_backward`` says
    which, by "input" and "weight". PyTorch also computes if something records or transforms the
    call, or if it was faster when the shape was tuned. Copies share the source. A saved file has no
    source: set ``source`` after loading.
    """

    operator: ClassVar[str]
    AXES: ClassVar[int]
    ORDERS: ClassVar[dict[str | None, tuple[AxisOrder, AxisOrder]]]
    """For each layout with channels last: the axes with which ``permute`` turns an input into that
    layout, and an output in that layout back into PyTorch's order."""
    bias: torch.nn.Parameter | None
    reason_log: ReasonLog
    used: Literal["tuned", "pytorch"] | None = None
    reason: str = ""
    used_backward: dict[str, str]

    def __init__(
        self,
        weight: Any,
        bias: Any,
        source: Source,
        max_error: float | None = None,
        activation: Activation = "none",
    ) -> None:
        super().__init__()
        arguments.source(source, or_none=", or None")
        self.weight = arguments.parameter("weight", weight)
        self.weight_shape = tuple(self.weight.shape)
        self.register_parameter("bias", None if bias is None else arguments.parameter("bias", bias))
        self.source: Source | None = source
        self.max_error = max_error
        self.activation = activation
        self.bias_in_kernel = True
        self.norm = None
        self.used_backward = {}
        self._number = module_operator.register(self)
        self.reason_log = ReasonLog()
        self.forget()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, as PyTorch's convolution in this place does."""
        kind: Any = type(self.in_place_of[0]) if self.in_place_of else torch.nn.Conv2d
        kind.reset_parameters(self)

    def forget(self) -> None:
        """Have every shape looked up again."""
        self.reason_log.forget()  # first, or another thread could fill _found with its old answers
        self._found: dict[Any, Found] = {}
        # one for eager mode and one for graphs, which have another dispatch state
        self._shortcuts: tuple[dict[Any, Shortcut], dict[Any, Shortcut]] = ({}, {})
        self.gradient_shortcut: GradientShortcut | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, activations.known(value) if name == "activation" else value)
        if name in ("activation", "max_error", "source") and "reason_log" in vars(self):
            self.forget()

    def fuse(self, norm: BatchNorm | None, activation: Activation) -> None:
        """Also compute a batch norm and an activation that follow the convolution in a model. Their
        modules keep their places, and must return the layer's output unchanged."""
        self.norm, self.activation = norm, activation  # setting the activation forgets answers

    def __getstate__(self) -> dict[str, Any]:
        # libraries are loaded in this process only
        own: dict[str, Any] = {"_found": {}, "_shortcuts": ({}, {}), "gradient_shortcut": None}
        return self.__dict__ | own | {"source": SharedSource(self.source)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(  # type: ignore[no-untyped-call]
            state | {"source": state["source"].source}
        )
        self._number = module_operator.register(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # without this method PyTorch gives a parametrised module one that skips __setstate__
        state = Tuned.__getstate__(self)
        stays_behind = self.fused_modules is not None and not memo
        if stays_behind:
            state["fused_modules"] = None
        copied = self.__new__(type(self))
        memo[id(self)] = copied
        Tuned.__setstate__(copied, deepcopy(state, memo))
        if stays_behind:
            copied.stand_alone()
        return copied

    def forward(self, input: Any, residual: Any = None) -> Any:  # noqa: A002
        """Return the output. ``residual`` has its shape, and is added before the activation."""
        if self.fused_modules is not None and self.fused_modules.must_unfuse():
            self.unfuse()
        # the flag, because torch.compiler.is_exporting() is true in any graph in PyTorch 2.11
        if torch.compiler._is_exporting_flag or torch.compiler.is_compiling():
            if self.fused_modules is not None:
                # PyTorch's operators do not mark their output for modules outside this graph
                given = not_none(input, self.weight, self.bias)
                alone = residual is None and self._needs_pytorch_in_graph(given)
                self.fused_modules.announce_in_graph(alone)
                if alone:
                    return self.convolved(input, self.weight, self.bias)
            return self.call_with(input, self.weight, self.bias, residual)
        if isinstance(input, torch.fx.Proxy):
            return trace_call(self, input, residual)
        weight, bias = self._current("weight"), self._current("bias")
        if (residual is None and self.fused_modules is not None
            and self.norm is not None and self.norm.is_training()):  # fmt: skip
            # the norm must see what the model leaves of the output, not all that is computed here
            self.fused_modules.calls.announce_alone()
            self._record_use("pytorch", str(self.norm.why_unfoldable(input, weight)))
            return self.convolved(input, weight, bias)
        y = self.call_with(input, weight, bias, residual)
        if self.fused_modules is not None:
            self.fused_modules.calls.announce(y)
        return y

    def call_with(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """Return the output for this weight and bias, in eager mode, in a graph or in an export."""
        if torch.compiler._is_exporting_flag:
            return self.plain(x, weight, bias, residual)
        if torch.compiler.is_compiling():
            return self._compiled(x, weight, bias, residual)
        kind = x.device.type
        if self.norm is None and autocast.is_on(kind, x, weight, bias):
            given: Any = autocast.cast(kind, x, weight, bias, residual)
            with torch.autocast(kind, enabled=False):
                return self.computed(*given)
        return self.computed(x, weight, bias, residual)

    @property
    def only_pytorch(self) -> bool:
        """Whether PyTorch computes all gradients."""
        return self.norm is not None

    def _compiled(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """Return the output in a graph, by one operator or by PyTorch's."""
        given = not_none(x, weight, bias, residual)
        if self._needs_pytorch_in_graph(given):
            return self.plain(x, weight, bias, residual)
        # a graph may compute with other values than the norm's, so they are arguments
        of_norm = [] if self.norm is None else self.norm.tensors()
        return module_operator.call(x, weight, bias, residual, of_norm, self._number)

    def plain(
        self, x: Any, weight: Any, bias: Any, residual: Any = None, of_norm: Sequence[Any] = ()
    ) -> Any:
        """Return the output by PyTorch alone. ``of_norm`` replaces the tensors of the norm."""
        y = self.convolved(x, weight, bias)
        if self.norm is not None:
            y = self.norm.normalised(y, of_norm)
        if residual is not None:
            y = y + residual
        return activations.applied(self.activation, y)

    def computed(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """Return the output for this weight and bias, by a tuned kernel if there is one."""
        return self._computed(x, weight, bias, residual, in_graph=False)

    def recognised(
        self, x: Any, weight: Any, bias: Any, in_graph: bool, of_norm: Sequence[Any] = ()
    ) -> Any:
        """Return the output if the call is like the last one that a kernel computed, else None.

        ``of_norm`` are the norm's tensors in the graph, and empty if these are its own."""
        norm = self.norm
        try:
            shortcut = self._shortcuts[in_graph].get(x.shape)
        except TypeError:  # a graph's symbolic sizes have no hash
            return None
        others = norm and of_norm and not all(map(operator.is_, of_norm, norm.tensors()))
        if shortcut is None or others:
            return None
        y = shortcut(x, weight, bias, norm)
        if y is not None:
            if self.used != "tuned":
                self._record_use("tuned", shortcut.reason)
            if in_graph:
                self.leave_graph(y)
        return y

    def computed_in_graph(
        self, x: Any, weight: Any, bias: Any, residual: Any, of_norm: Sequence[Any] = ()
    ) -> Any:
        """Return the output of an operator in a graph, laid out in memory as the graph expects.

        PyTorch computes it if the norm's tensors in the graph, ``of_norm``, are not the norm's own.
        """
        if self.norm is not None and of_norm and not self.norm.has(of_norm):
            self._record_use("pytorch", NORM_REPLACED)
            y = self.in_layout_of(self.plain(x, weight, bias, residual, of_norm), x)
            self.leave_graph(y)
            return y
        return self._computed(x, weight, bias, residual, in_graph=True)

    def _computed(self, x: Any, weight: Any, bias: Any, residual: Any, in_graph: bool) -> Any:
        y = self.recognised(x, weight, bias, in_graph) if residual is None else None
        if y is not None:
            return y
        of_norm = () if self.norm is None else self.norm.tensors()
        reason = why_pytorch(x, weight, bias, residual, *of_norm)
        if reason is NEEDS_GRAD:
            y = self.with_gradients(x, weight, bias, residual)
        else:
            y = reason or self.by_kernel(x, weight, bias, residual)
        if isinstance(y, str):
            y = self.by_pytorch(x, weight, bias, residual, y)
        elif residual is None and reason is None and (made := self.shortcut(x, weight, bias, y)):
            bounded.put(self._shortcuts[in_graph], x.shape, made)
        if in_graph:
            y = self.in_layout_of(y, x)
            self.leave_graph(y)
        return y

    def with_gradients(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """Return the output with gradients if a kernel computes the output or a gradient, else the
        reason why none does."""
        if self.norm is not None:
            return self.norm.why_unfoldable(x, weight) or NORM_NEEDS_GRAD
        x = self.as_dense(x)
        if (unfit := self._why_unfit(x, weight)) is not None:
            return unfit
        asked: list[tuple[bool, Purpose]] = [(residual is not None, "forward")]
        if x.requires_grad:
            asked.append((False, "backward_input"))
        if weight.requires_grad:
            asked.append((False, "backward_weight"))
        if x.requires_grad and weight.requires_grad:
            asked.append((False, "backward"))
        if is_transformed():
            return "torch.func transforms the call, and gradients are not tuned for that"
        if not any(self.found_for(x, x.device, *each).library for each in asked):
            return NEEDS_GRAD
        backward = partial(gradients.compute_gradients, self)
        calls = gradients.Calls(
            self.activation, self.computed, backward, partial(backward, tuned=False)
        )
        if bias is not None and activations.of_sums(self.activation):
            bias = bias.clone()  # if it is trained alone, a step may change it before backward
        apply: Any = gradients.Differentiated.apply
        return apply(calls, x, weight, bias, residual)

    def sums(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """Return the output before the activation."""
        if self._why_unfit(x, weight) is None:
            library = self.found_for(x, x.device, residual is not None, "sums").library
            if library is not None:
                return self._by_library(library, x, weight, bias, residual, "none")
        y = self.convolved(x, weight, bias)
        return self.in_layout_of(y if residual is None else y + residual, x)

    def shortcut(self, x: Any, weight: Any, bias: Any, y: Any) -> Shortcut | None:
        """Return a shortcut for calls like the one in which a kernel alone gave y, or None."""
        found = self._found.get(self._key(x, x.device, False))
        library: Any = found and found.library
        if library is None or not self.is_dense(x):
            return None  # no library: forget() was called meanwhile
        given = x, weight, bias
        return Shortcut.of(library, self.activation, self.ORDERS, given, self.norm, y)

    def by_kernel(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """Return the output by a tuned kernel, in the layout of its input, or why no kernel gives
        it. Only for tensors for which :func:`why_pytorch` returns None."""
        if self.norm is not None and (why := self.norm.why_unfoldable(x, weight)):
            return why
        x = self.as_dense(x)
        known = self._found.get(self._key(x, x.device, residual is not None))
        library: Any = known and known.library
        if library is None:  # a library that is known refuses unfit tensors itself
            library = self._why_unfit(x, weight) or self._library(x, residual)
            if isinstance(library, str):
                return library
        try:
            y = self._by_library(library, x, weight, bias, residual, self.activation)
        except WrongArgument as error:
            return str(error)
        self._record_use("tuned", library.manifest["template"])
        return y

    def _by_library(
        self, library: Library, x: Any, weight: Any, bias: Any, residual: Any, last: Activation
    ) -> Any:
        """Return the library's output, after applying what the library was tuned without."""
        if self.norm is not None:
            weight, bias = self.norm.folded(weight, bias)
        work: Any = library.workload
        first, second, output = library.arguments[0], library.arguments[1], library.arguments[-1]
        taken = [self.as_library_view(x, first), self._weight_view(weight, second)]
        if work.bias:
            taken.append(bias)
        if work.residual:
            taken.append(self.as_library_view(residual, output))
        y = self._as_pytorch_view(library.of_tensors(*taken), x, output)
        if bias is not None and not work.bias:
            arguments.must_fit("bias", bias, self._shape_of_bias[:1], y.dtype)
            y += bias.detach().view(self._shape_of_bias)
        if residual is not None and not work.residual:
            arguments.must_fit("residual", residual, y.shape, y.dtype)
            y += residual.detach()
        if work.activation != last:
            y = activations.applied(last, y)
        return y

    @property
    def _extra(self) -> str:
        """The batch norm and activation behind the convolution, for :meth:`extra_repr`."""
        norm = "" if self.norm is None else ", batch norm"
        return norm + ("" if self.activation == "none" else f", activation={self.activation}")

    def by_pytorch(self, x: Any, weight: Any, bias: Any, residual: Any, reason: str) -> Any:
        """Return the output by PyTorch, and log the reason."""
        self._record_use("pytorch", reason)
        return self.plain(x, weight, bias, residual)

    def _record_use(self, used: Literal["tuned", "pytorch"], reason: str) -> None:
        if self.used != used or self.reason != reason:  # to set a module's attribute takes long
            self.used, self.reason = used, reason
        self.reason_log.log(type(self).__name__, used, reason)

    def as_library_view(self, x: Any, argument: Argument) -> Any:
        """Return a view of the input, or of a tensor of the output's shape, as the library takes
        it. Raises WrongArgument if shape or strides do not allow one."""
        orders = self.ORDERS.get(argument.layout)
        if orders is not None and x.ndim == len(orders[0]):
            return x.permute(orders[0])
        if x.shape == argument.shape:
            return x
        try:
            return x.view(argument.shape)
        except RuntimeError as error:  # never the input: the library was found by its shape
            raise WrongArgument(
                f"the residual has shape {tuple(x.shape)} and strides {x.stride()}, the output "
                f"{argument.shape}"
            ) from error

    def _as_pytorch_view(self, y: Any, x: Any, output: Argument) -> Any:
        """Return a view of the output, as PyTorch would return it for ``x``."""
        orders = self.ORDERS.get(output.layout)
        if orders is not None:
            return y.permute(orders[1])
        return y if y.ndim == x.ndim else y.view(self._shape_of_output(x, output))

    @abstractmethod
    def convolved(self, x: Any, weight: Any, bias: Any) -> Any:
        """Return the convolution with its bias, by PyTorch alone."""

    @abstractmethod
    def differentiated(
        self, g: Any, x: Any, weight: Any, wanted: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        """Return gradients of input and weight by PyTorch alone, those that are ``wanted``, for
        the gradient ``g`` of the convolution's output."""

    @abstractmethod
    def _shape_of_output(self, x: Any, output: Argument) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def _shape_of_bias(self) -> tuple[int, ...]: ...
