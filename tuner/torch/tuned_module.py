"""What PyTorch modules with a tuned kernel share."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, Self

import torch

from templates.argument import Argument
from templates.epilogue import Activation
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.library.load import Library
from tuner.torch import activations, module_operator
from tuner.torch.beyond_kernels import NEEDS_GRAD, PLAIN, only_pytorchs, there
from tuner.torch.folding import BatchNorm
from tuner.torch.lookup import Found, look_up
from tuner.torch.shortcut import Order, Shortcut

log = logging.getLogger("tuner.torch.modules")

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


class Tuned(torch.nn.Module):
    """What both modules share. ``source`` is a Client, or a Local database; ``max_error`` the
    accuracy that is asked for, by default the operator's; ``activation`` what is applied to the
    output, after the bias and a residual: one of the workload's.

    A shape is looked up at its first call, with bias, residual and activation in the kernel or, if
    only that is tuned, without, and what was found is kept: :meth:`forget` has it looked up anew.
    ``used`` says what computed the last output, "tuned" or "pytorch", ``reason`` why; each reason
    is logged once. A tuned kernel has no backward, and PyTorch does not see it: if grad is needed,
    or something records or transforms the call, PyTorch computes; and so it does if it was faster
    when the shape was tuned.

    A copy shares the source. A file has none: set ``source`` after loading.
    """

    operator: ClassVar[str]
    ORDERS: ClassVar[dict[str | None, tuple[Order, Order]]]
    """By a layout with channels last, the axes of an input in that order, and those of an output in
    PyTorch's."""
    bias: torch.nn.Parameter | None
    used: Literal["tuned", "pytorch"] | None = None
    reason: str = ""
    in_place_of: tuple[torch.nn.Module, ...] = ()

    def __init__(
        self,
        weight: Any,
        bias: Any,
        source: Source,
        max_error: float | None = None,
        activation: Activation = "none",
    ) -> None:
        super().__init__()
        self.weight = _parameter(weight)
        self.register_parameter("bias", None if bias is None else _parameter(bias))
        self.source: Source | None = source
        self.max_error = max_error
        self.activation = activations.known(activation)
        self.bias_in_kernel = True
        self._norm: BatchNorm | None = None
        self._number = module_operator.numbered(self)
        self.forget()

    def forget(self) -> None:
        """Look every shape up again."""
        self._found: dict[Any, Found] = {}
        self._said: set[str] = set()
        # of the last call in eager mode, and in a graph, which PyTorch dispatches otherwise
        self._shortcuts: list[Shortcut | None] = [None, None]

    def take_in(self, norm: BatchNorm | None, activation: Activation) -> None:
        """Compute what stands behind the convolution in a model too: a batch norm, an activation.
        They keep their places, and must pass on there what comes."""
        self._norm, self.activation = norm, activations.known(activation)
        self.forget()

    def __getstate__(self) -> dict[str, Any]:
        # what was found is of this process
        own: dict[str, Any] = {"_found": {}, "_said": set(), "_shortcuts": [None, None]}
        return self.__dict__ | own | {"source": _Shared(self.source)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(  # type: ignore[no-untyped-call]
            state | {"source": state["source"].source}
        )
        self._number = module_operator.numbered(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # a parametrised module has a copy of its own else, which knows nothing of __setstate__
        copied = self.__new__(type(self))
        memo[id(self)] = copied
        Tuned.__setstate__(copied, deepcopy(Tuned.__getstate__(self), memo))
        return copied

    def forward(self, x: Any, residual: Any = None) -> Any:
        # torch.compiler.is_exporting() is true of any graph in PyTorch 2.11
        if torch.compiler._is_exporting_flag:
            return self.plain(x, self.weight, self.bias, residual)
        if torch.compiler.is_compiling():
            return self._compiled(x, residual)
        return self.computed(x, self._current("weight"), self._current("bias"), residual)

    def _compiled(self, x: Any, residual: Any) -> Any:
        """One operator in a graph; or PyTorch's, of what only PyTorch knows, in forward-mode
        differentiation, if autocast is on, or if a batch norm's gradients or sums are needed."""
        weight, bias = self.weight, self.bias
        given = there(x, weight, bias, residual)
        known = x.device.type in ("cpu", "cuda") and all(type(each) in PLAIN for each in given)
        forward = torch.autograd.forward_ad._current_level >= 0
        normed = self._norm is not None and (
            self._norm.training or (torch.is_grad_enabled() and self._needs_grad(given))
        )
        if not known or forward or normed or torch.is_autocast_enabled(x.device.type):
            return self.plain(x, weight, bias, residual)
        return module_operator.call(x, weight, bias, residual, self._number)

    def plain(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """The output by PyTorch alone."""
        y = self.convolved(x, weight, bias)
        if self._norm is not None:
            y = self._norm.normalised(y)
        if residual is not None:
            y = y + residual
        return activations.applied(self.activation, y)

    def computed(self, x: Any, weight: Any, bias: Any, residual: Any = None) -> Any:
        """The output for the current weight and bias, by a tuned kernel if there is one."""
        return self._computed(x, weight, bias, residual, in_graph=False)

    def computed_in_graph(self, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """The same, as an operator of a compiled graph, laid out as that was promised."""
        return self._computed(x, weight, bias, residual, in_graph=True)

    def _computed(self, x: Any, weight: Any, bias: Any, residual: Any, in_graph: bool) -> Any:
        shortcut = self._shortcuts[in_graph]
        if shortcut is not None and residual is None:
            y = shortcut(x, weight, bias)
            if y is not None:
                if self.used != "tuned":
                    self._tell("tuned", shortcut.reason)
                return y
        y = only_pytorchs(x, weight, bias, residual) or self.by_kernel(x, weight, bias, residual)
        if isinstance(y, str):
            y = self.by_pytorch(x, weight, bias, residual, y)
        elif residual is None:
            self._shortcuts[in_graph] = self._shortcut(x, weight, bias, y)
        return self.laid_out(y, x) if in_graph else y

    def _shortcut(self, x: Any, weight: Any, bias: Any, y: Any) -> Shortcut | None:
        """For calls like one by which a kernel has computed y, if that had nothing else to do."""
        found = self._found.get(self._key(x, x.device, False))
        library: Any = found and found.library
        if library is None:  # forgotten meanwhile
            return None
        work, (first, second) = library.workload, library.arguments[:2]
        if (
            torch.is_grad_enabled()
            or not self.is_dense(x)
            or self._norm is not None
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
        known = self._found.get(self._key(x, x.device, residual is not None))
        library: Any = known and known.library
        if library is None:  # else it refuses itself what it is not for
            library = self._unfit(x, weight) or self._library(x, residual)
            if isinstance(library, str):
                return library
        try:
            y = self._by_library(library, x, weight, bias, residual)
        except WrongArgument as error:
            return str(error)
        self._tell("tuned", library.manifest["template"])
        return y

    def _by_library(self, library: Library, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
        """What the library was tuned without is done to its output."""
        if self._norm is not None:
            weight, bias = self._norm.folded(weight, bias)
        work: Any = library.workload
        first, second, output = library.arguments[0], library.arguments[1], library.arguments[-1]
        taken = [self._taken(x, first), weight]
        if weight.shape != second.shape:
            taken[1] = weight.view(second.shape)
        if work.bias:
            taken.append(bias)
        if work.residual:
            taken.append(self._taken(residual, output))
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
        if work.activation != self.activation:
            y = activations.applied(self.activation, y)
        return y

    @property
    def _extra(self) -> str:
        """What is computed behind the convolution, for :meth:`extra_repr`."""
        norm = "" if self._norm is None else ", batch norm"
        return norm + ("" if self.activation == "none" else f", activation={self.activation}")

    def _current(self, name: str) -> Any:
        """A parameter; or, where it is parametrised, what that makes of it now."""
        own = self._parameters
        return own[name] if name in own else getattr(self, name)

    @property
    def _has_bias(self) -> bool:
        return self._norm is not None or self._current("bias") is not None

    def by_pytorch(self, x: Any, weight: Any, bias: Any, residual: Any, reason: str) -> Any:
        """The output by PyTorch, which is told."""
        self._tell("pytorch", reason)
        return self.plain(x, weight, bias, residual)

    def _tell(self, used: Literal["tuned", "pytorch"], reason: str) -> None:
        if self.used != used or self.reason != reason:  # to set what a module has takes long
            self.used, self.reason = used, reason
        if reason not in self._said:
            self._said.add(reason)
            level = logging.INFO if used == "tuned" else logging.WARNING
            log.log(level, "%s is computed by %s: %s", type(self).__name__, used, reason)

    def _needs_grad(self, given: Sequence[Any]) -> bool:
        return any(each.requires_grad for each in given) or (
            self._norm is not None and self._norm.needs_grad
        )

    def _unready(self, x: Any) -> str | None:
        """Why no library may be called now."""
        if self._norm is not None:
            if self._norm.needs_grad and torch.is_grad_enabled():
                return NEEDS_GRAD
            if self._norm.training:
                return "its batch norm is in training mode; call eval() on the model"
        if torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(x.device.type):
            return "autocast is on, which chooses the dtype itself"
        return None

    def _unfit(self, x: Any, weight: Any) -> str | None:
        """Why no library could be called on these, whatever is tuned."""
        if x.dtype != weight.dtype or x.dtype not in DTYPES:
            known = ", ".join(DTYPES.values())
            return f"input is {x.dtype}, weight {weight.dtype}; both must be one of {known}"
        device = x.device
        if device != weight.device or device.type not in ("cpu", "cuda"):
            return f"the input is on {device} and the weight on {weight.device}"
        dense = x.layout == torch.strided and self.is_dense(x) and weight.is_contiguous()
        return None if dense else "input and weight must be contiguous; call .contiguous() on them"

    def _library(self, x: Any, residual: Any) -> Library | str:
        if self.source is None:
            return "a module has no source when it comes from a file; set its source"
        found = self.found_for(x, x.device, residual is not None)
        return found.library or found.reason

    def found_for(self, x: Any, device: Any, residual: bool = False) -> Found:
        """What computes inputs of that shape, layout and dtype, which may have no data, on that
        device: asked of the source once."""
        key = self._key(x, device, residual)
        found = self._found.get(key)
        if found is None:
            if x.is_cuda and torch.cuda.is_current_stream_capturing():
                return Found(
                    reason="a CUDA graph is captured, and this shape was not called before"
                )
            found = self._found[key] = self._looked_up(x, device, residual)
        return found

    def _key(self, x: Any, device: Any, residual: bool) -> tuple[Any, ...]:
        return x.shape, x.dtype, device, x.is_contiguous(), self._has_bias, residual

    def wanted(self, x: Any, residual: bool = False) -> list[dict[str, Any]] | str:
        """The workloads that would serve that input, by their fields, the most complete first; or
        why it has none."""
        fields = self._fields(x)
        if isinstance(fields, str):
            return fields
        if x.dtype not in DTYPES:
            return f"the input is {x.dtype}, and must be one of {', '.join(DTYPES.values())}"
        if not self.is_dense(x):
            return "the input is not contiguous"
        if self.max_error is not None:
            fields["max_error"] = self.max_error
        fields["dtype"] = DTYPES[x.dtype]
        if self._has_bias and not self.bias_in_kernel:
            return [fields]
        several = [fields]
        for name, value in (
            ("bias", self._has_bias),
            ("residual", residual),
            ("activation", self.activation != "none" and self.activation),
        ):
            if value:
                several.append(several[-1] | {name: value})
        return several[::-1]  # what a kernel was tuned without is done to its output

    def _looked_up(self, x: Any, device: Any, residual: bool) -> Found:
        wanted = self.wanted(x, residual)
        if isinstance(wanted, str):
            return Found(reason=wanted)
        source: Any = self.source
        return look_up(source, self.operator, wanted, device)

    @staticmethod
    @abstractmethod
    def is_dense(x: Any) -> bool:
        """Whether a library could take the input as it lies in memory."""

    def _taken(self, x: Any, argument: Argument) -> Any:
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

    @staticmethod
    @abstractmethod
    def laid_out(y: Any, x: Any) -> Any:
        """The output with its channels where those of the input are in memory."""

    @abstractmethod
    def _fields(self, x: Any) -> dict[str, Any] | str:
        """The workload of that input, or why it has none."""

    @abstractmethod
    def _shape_of_output(self, x: Any, output: Argument) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def _shape_of_bias(self) -> tuple[int, ...]: ...


def _parameter(given: Any) -> Any:
    """A parameter as it is, so that a module and its replacement train as one; a plain tensor as a
    parameter that needs no grad unless the tensor does."""
    if isinstance(given, torch.nn.Parameter):
        return given
    return torch.nn.Parameter(given.detach(), requires_grad=given.requires_grad)


class _Shared:
    """A source within a module's state: its copies have the same, its files none."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Shared, ()
