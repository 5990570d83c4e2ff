"""What PyTorch modules with a tuned kernel share."""

from __future__ import annotations

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
from tuner.torch.beyond_kernels import (
    NEEDS_GRAD,
    NORM_NEEDS_GRAD,
    PLAIN,
    only_pytorchs,
    recorded,
    there,
)
from tuner.torch.functional import activations, autocast
from tuner.torch.functional.folding import BatchNorm
from tuner.torch.gradients import call as gradients
from tuner.torch.gradients.shortcut import GradientShortcut
from tuner.torch.in_place import InPlace
from tuner.torch.looks_up import LooksUp, Purpose, Shared
from tuner.torch.lookup import Found
from tuner.torch.said import Said
from tuner.torch.shortcut import Order, Shortcut


class Tuned(InPlace, LooksUp):
    """What both modules share. ``source`` is a Client, or a Local database; ``max_error`` the
    accuracy that is asked for, by default the operator's; ``activation`` what is applied to the
    output, after the bias and a residual: one of the workload's.

    A shape is looked up at its first call, with bias, residual and activation in the kernel or, if
    only that is tuned, without, and what was found is kept: :meth:`forget` has it looked up anew,
    and so has setting ``source``, ``max_error`` or ``activation``.

    ``used`` says what computed the last output, "tuned" or "pytorch", ``reason`` why; each reason
    is logged once, of a model's layers together. If grad is needed, the output, the input's
    gradient and the weight's are each by a tuned kernel if there is one, and by PyTorch if not:
    ``used_backward`` says by what, of "input" and "weight". If something records or transforms the
    call, PyTorch computes; and so it does if it was faster when the shape was tuned.

    A copy shares the source. A file has none: set ``source`` after loading.
    """

    operator: ClassVar[str]
    AXES: ClassVar[int]
    ORDERS: ClassVar[dict[str | None, tuple[Order, Order]]]
    """By a layout with channels last, the axes of an input in that order, and those of an output in
    PyTorch's."""
    bias: torch.nn.Parameter | None
    said: Said
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
        self.register_parameter("bias", None if bias is None else arguments.parameter("bias", bias))
        self.source: Source | None = source
        self.max_error = max_error
        self.activation = activation
        self.bias_in_kernel = True
        self.norm: BatchNorm | None = None
        self.used_backward = {}
        self._number = module_operator.numbered(self)
        self.said = Said()
        self.forget()

    def forget(self) -> None:
        """Look every shape up again."""
        self._found: dict[Any, Found] = {}
        self.said.forget()
        # of the last call in eager mode, and in a graph, which PyTorch dispatches otherwise
        self._shortcuts: list[Shortcut | None] = [None, None]
        self.gradient_shortcut: GradientShortcut | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, activations.known(value) if name == "activation" else value)
        if name in ("activation", "max_error", "source") and "said" in vars(self):
            self.forget()

    def take_in(self, norm: BatchNorm | None, activation: Activation) -> None:
        """Compute what stands behind the convolution in a model too: a batch norm, an activation.
        They keep their places, and must pass on there what comes."""
        self.norm, self.activation = norm, activation  # which forgets what was found

    def __getstate__(self) -> dict[str, Any]:
        # what was found is of this process
        own: dict[str, Any] = {"_found": {}, "_shortcuts": [None, None]}
        own |= {"gradient_shortcut": None, "source": Shared(self.source)}
        return self.__dict__ | own

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(  # type: ignore[no-untyped-call]
            state | {"source": state["source"].source}
        )
        self._number = module_operator.numbered(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # a parametrised module has a copy of its own else, which knows nothing of __setstate__
        state = Tuned.__getstate__(self)
        stays_behind = self.taken_in is not None and not memo
        if stays_behind:
            state["taken_in"] = None
        copied = self.__new__(type(self))
        memo[id(self)] = copied
        Tuned.__setstate__(copied, deepcopy(state, memo))
        if stays_behind:
            copied.stand_alone()
        return copied

    def forward(self, input: Any, residual: Any = None) -> Any:  # noqa: A002
        if self.taken_in is not None and self.taken_in.parted(self):
            self.part()
        # torch.compiler.is_exporting() is true of any graph in PyTorch 2.11
        if torch.compiler._is_exporting_flag or torch.compiler.is_compiling():
            return self.on(input, self.weight, self.bias, residual)
        if isinstance(input, torch.fx.Proxy):
            return recorded(self, input, residual)
        return self.on(input, self._current("weight"), self._current("bias"), residual)

    def on(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """The output for a weight and a bias of these shapes, in eager mode, a graph or a file."""
        if torch.compiler._is_exporting_flag:
            return self.plain(x, weight, bias, residual)
        if torch.compiler.is_compiling():
            return self._compiled(x, weight, bias, residual)
        kind = x.device.type
        if self.norm is None and autocast.is_on(kind):
            given: Any = autocast.cast(kind, x, weight, bias, residual)
            with torch.autocast(kind, enabled=False):
                return self.computed(*given)
        return self.computed(x, weight, bias, residual)

    @property
    def only_plain(self) -> bool:
        """Whether its gradients are all PyTorch's."""
        return self.norm is not None

    def _compiled(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """One operator in a graph; or PyTorch's, of what only PyTorch knows, in forward-mode
        differentiation, or if it has a batch norm and autocast is on, or gradients or sums of the
        norm are needed."""
        given = there(x, weight, bias, residual)
        known = x.device.type in ("cpu", "cuda") and all(type(each) in PLAIN for each in given)
        forward = torch.autograd.forward_ad._current_level >= 0
        normed = self.norm is not None and (
            self.norm.training
            or (torch.is_grad_enabled() and self._needs_grad(given))
            or torch.is_autocast_enabled(x.device.type)
        )
        if not known or forward or normed:
            return self.plain(x, weight, bias, residual)
        return module_operator.call(x, weight, bias, residual, self._number)

    def plain(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """The output by PyTorch alone."""
        y = self.convolved(x, weight, bias)
        if self.norm is not None:
            y = self.norm.normalised(y)
        if residual is not None:
            y = y + residual
        return activations.applied(self.activation, y)

    def computed(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """The output for the current weight and bias, by a tuned kernel if there is one."""
        return self._computed(x, weight, bias, residual, in_graph=False)

    def recognised(self, x: Any, weight: Any, bias: Any, in_graph: bool) -> Any:
        """The output for a call like the last one that a kernel has computed; else None."""
        shortcut = self._shortcuts[in_graph]
        y = shortcut and shortcut(x, weight, bias)
        if shortcut is not None and y is not None and self.used != "tuned":
            self._tell("tuned", shortcut.reason)
        return y

    def computed_in_graph(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """The same, as an operator of a compiled graph, laid out as that was promised."""
        return self._computed(x, weight, bias, residual, in_graph=True)

    def _computed(self, x: Any, weight: Any, bias: Any, residual: Any, in_graph: bool) -> Any:
        y = self.recognised(x, weight, bias, in_graph) if residual is None else None
        if y is not None:
            return y
        reason = only_pytorchs(x, weight, bias, residual)
        if reason is NEEDS_GRAD:
            y = self.trained(x, weight, bias, residual)
        else:
            y = reason or self.by_kernel(x, weight, bias, residual)
        if isinstance(y, str):
            y = self.by_pytorch(x, weight, bias, residual, y)
        elif residual is None and reason is None:
            self._shortcuts[in_graph] = self.shortcut(x, weight, bias, y)
        return self.laid_out(y, x) if in_graph else y

    def trained(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """The output, with gradients, if a kernel computes it or one of them; or the reason why
        none does."""
        x = self.densely(x)
        unready = self._unready(x) or self._unfit(x, weight)
        if unready is not None:
            return unready
        asked: list[tuple[bool, Purpose]] = [(residual is not None, "forward")]
        if x.requires_grad:
            asked.append((False, "backward_input"))
        if weight.requires_grad:
            asked.append((False, "backward_weight"))
        if x.requires_grad and weight.requires_grad:
            asked.append((False, "backward"))
        if self.norm is not None:
            return NORM_NEEDS_GRAD
        if not any(self.found_for(x, x.device, *each).library for each in asked):
            return NEEDS_GRAD
        backward = partial(gradients.computed, self)
        calls = gradients.Calls(
            self.activation, self.computed, backward, partial(backward, tuned=False)
        )
        apply: Any = gradients.Differentiated.apply
        return apply(calls, x, weight, bias, residual)

    def gradient_library(self, x: Any, weight: Any, purpose: Purpose) -> Library | None:
        """The tuned kernel for that purpose, if there is one."""
        if self._unfit(x, weight) is not None:
            return None
        return self.found_for(x, x.device, False, purpose).library

    def sums(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """The output before the activation."""
        if self._unfit(x, weight) is None:
            library = self.found_for(x, x.device, residual is not None, "sums").library
            if library is not None:
                return self._by_library(library, x, weight, bias, residual, "none")
        y = self.convolved(x, weight, bias)
        return self.laid_out(y if residual is None else y + residual, x)

    def shortcut(self, x: Any, weight: Any, bias: Any, y: Any) -> Shortcut | None:
        """For calls like one by which a kernel has computed y, if that had nothing else to do."""
        found = self._found.get(self._key(x, x.device, False))
        library: Any = found and found.library
        if library is None:  # forgotten meanwhile
            return None
        work, (first, second) = library.workload, library.arguments[:2]
        if (
            torch.is_grad_enabled()
            or not self.is_dense(x)
            or self.norm is not None
            or (work.bias, work.activation) != (bias is not None, self.activation)
            or weight.shape != second.shape
        ):
            return None
        orders = self.ORDERS.get(first.layout)
        if orders is None and x.shape != first.shape:
            return None
        return Shortcut(there(x, weight, bias), y, library, orders)

    def by_kernel(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """The output by a tuned kernel, in the layout of its input; or the reason why there is
        none. Of the tensors :func:`only_pytorchs` must have said nothing."""
        unready = self._unready(x)
        if unready is not None:
            return unready
        x = self.densely(x)
        known = self._found.get(self._key(x, x.device, residual is not None))
        library: Any = known and known.library
        if library is None:  # else it refuses itself what it is not for
            library = self._unfit(x, weight) or self._library(x, residual)
            if isinstance(library, str):
                return library
        try:
            y = self._by_library(library, x, weight, bias, residual, self.activation)
        except WrongArgument as error:
            return str(error)
        self._tell("tuned", library.manifest["template"])
        return y

    def _by_library(
        self, library: Library, x: Any, weight: Any, bias: Any, residual: Any, last: Activation
    ) -> Any:
        """What the library was tuned without is done to its output."""
        if self.norm is not None:
            weight, bias = self.norm.folded(weight, bias)
        work: Any = library.workload
        first, second, output = library.arguments[0], library.arguments[1], library.arguments[-1]
        taken = [self.taken(x, first), weight]
        if weight.shape != second.shape:
            taken[1] = weight.view(second.shape)
        if work.bias:
            taken.append(bias)
        if work.residual:
            taken.append(self.taken(residual, output))
        y = self._given_back(library.of_tensors(*taken), x, output)
        if bias is not None and not work.bias:
            y += bias.detach().view(self._shape_of_bias)
        if residual is not None and not work.residual:
            if (residual.shape, residual.dtype) != (y.shape, y.dtype):
                raise WrongArgument(
                    f"the residual has shape {tuple(residual.shape)} and is {residual.dtype}, the "
                    f"output {tuple(y.shape)} and {y.dtype}"
                )
            y += residual.detach()
        if work.activation != last:
            y = activations.applied(last, y)
        return y

    @property
    def _extra(self) -> str:
        """What is computed behind the convolution, for :meth:`extra_repr`."""
        norm = "" if self.norm is None else ", batch norm"
        return norm + ("" if self.activation == "none" else f", activation={self.activation}")

    def by_pytorch(self, x: Any, weight: Any, bias: Any, residual: Any, reason: str) -> Any:
        """The output by PyTorch, which is told."""
        self._tell("pytorch", reason)
        return self.plain(x, weight, bias, residual)

    def _tell(self, used: Literal["tuned", "pytorch"], reason: str) -> None:
        if self.used != used or self.reason != reason:  # to set what a module has takes long
            self.used, self.reason = used, reason
        self.said.say(type(self).__name__, used, reason)

    def _needs_grad(self, given: Sequence[Any]) -> bool:
        return any(each.requires_grad for each in given) or (
            self.norm is not None and self.norm.needs_grad
        )

    def _unready(self, x: Any) -> str | None:
        """Why no library may be called now."""
        if self.norm is not None:
            if self.norm.needs_grad and torch.is_grad_enabled():
                return NORM_NEEDS_GRAD
            if self.norm.training:
                return "its batch norm normalises by what comes, as in training mode; call eval()"
        if autocast.is_on(x.device.type):
            return "autocast is on, and a batch norm is in it; call optimize_ under autocast, too"
        return None

    def _library(self, x: Any, residual: Any) -> Library | str:
        found = self.found_for(x, x.device, residual is not None)
        return found.library or found.reason

    def taken(self, x: Any, argument: Argument) -> Any:
        """The input, or what is shaped as the output, as the library takes it, in the same
        memory. Raises WrongArgument if it has another shape, or lies otherwise."""
        orders = self.ORDERS.get(argument.layout)
        if orders is not None and x.ndim == len(orders[0]):
            return x.permute(orders[0])
        if x.shape == argument.shape:
            return x
        try:
            return x.view(argument.shape)
        except RuntimeError as error:  # the input is looked up by its shape, so it is no input
            raise WrongArgument(
                f"the residual has shape {tuple(x.shape)} and strides {x.stride()}, the output "
                f"{argument.shape}"
            ) from error

    def _given_back(self, y: Any, x: Any, output: Argument) -> Any:
        """The output as PyTorch would return it for ``x``, in the same memory."""
        orders = self.ORDERS.get(output.layout)
        if orders is not None:
            return y.permute(orders[1])
        return y if y.ndim == x.ndim else y.view(self._shape_of_output(x, output))

    @abstractmethod
    def convolved(self, x: Any, weight: Any, bias: Any) -> Any:
        """The convolution and its bias, by PyTorch alone."""

    @abstractmethod
    def differentiated(
        self, g: Any, x: Any, weight: Any, wanted: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        """Gradients of input and weight, those that are wanted, of that of the convolution, by
        PyTorch alone."""

    @abstractmethod
    def _shape_of_output(self, x: Any, output: Argument) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def _shape_of_bias(self) -> tuple[int, ...]: ...
