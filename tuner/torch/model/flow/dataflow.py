"""The watch of one call of a model: its convolutions' inputs, and what takes their outputs.

It finds the batch norm and the activation that alone take a convolution's output, so that its
kernel can take them in.
"""

from __future__ import annotations

import gc
import inspect
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._C import _functorch as functorch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from tuner.torch.functional import activations, autocast
from tuner.torch.model.flow.functions import CONVOLVING, FunctionCall, GateTracker, signature_of
from tuner.torch.model.outputs import tensors
from tuner.torch.tuned_module import Tuned

_METADATA = (
    "shape", "dtype", "device", "layout", "ndim", "is_cuda", "requires_grad", "size", "dim",
    "stride", "numel", "is_contiguous", "is_floating_point",
)  # fmt: skip
"""Attributes and methods of a tensor that a norm and an activation do not change. Reading them does
not count as a use of the tensor."""


class Head(nn.Module):
    """A stand-in for ``y[..., :M]``, which is no module, among the modules behind a convolution.

    ``M`` is the number of the convolution's samples. Models write causal convolutions like this.
    """


HEAD = Head()

ModuleCall = tuple[nn.Module, int]
"""A module that is being called, and the number of functions that were called before."""


@dataclass
class ConvolutionCall:
    """A call of a convolution.

    ``input`` has no data, and the dtype that autocast gives it; ``device`` is where it was. In
    ``behind``, each module was the only user of the output before it: of the convolution's, or of
    the previous module's.
    """

    input: torch.Tensor
    device: torch.device
    needs_grad: bool = False
    """Whether the input needs grad."""
    is_cast: bool = False
    """Whether autocast was on for the device."""
    changes_layout: bool = False
    """Whether a tuned layer's output has another memory layout than PyTorch's."""
    behind: list[nn.Module] = field(default_factory=list)
    caller: ModuleCall | None = None
    """The module that calls the convolution as a function; None if the convolution is a module."""
    apart: str = ""
    """The reason why the next module is not in ``behind``; empty if none was cut off."""


@dataclass
class _Output:
    """A tensor that a convolution returned, or a module behind it.

    ``place`` is the number of modules before it in ``call.behind``. ``uses`` has the modules that
    took the tensor, and None for each other use.
    """

    call: ConvolutionCall
    shape: torch.Size
    place: int
    uses: list[nn.Module | None] = field(default_factory=list)

    @property
    def follower(self) -> nn.Module | None:
        """The next module behind the convolution, which took the tensor; None if there is none."""
        behind = self.call.behind
        return behind[self.place] if self.place < len(behind) else None


@dataclass
class Dataflow:
    """A record of one call of a model.

    ``calls`` are those of each convolution, including convolutions that modules call as functions.
    Of those in ``cut_at_any_length`` the model takes one output for each sample, at any length.
    ``times`` counts the calls of each module, and ``functions`` the functions of PyTorch's that the
    module called. ``output`` has the tensors in the model's output.
    """

    calls: dict[nn.Module | FunctionCall, list[ConvolutionCall]] = field(default_factory=dict)
    cut_at_any_length: set[nn.Module | FunctionCall] = field(default_factory=set)
    times: Counter[nn.Module] = field(default_factory=Counter)
    functions: Counter[nn.Module] = field(default_factory=Counter)
    output: list[torch.Tensor] = field(default_factory=list)


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Have the model called in evaluation mode, without compiled graphs.

    Afterwards its modules have their former modes again.
    """
    modes = {module: module.training for module in model.modules()}
    try:
        for module in modes:  # a model's eval() may do more, such as merge adapters into weights
            module.training = False
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def run(
    model: nn.Module, given: tuple[Any, ...], named: dict[str, Any], with_grad: bool = False
) -> Any:
    """Return the model's output, :func:`in_evaluation_mode`."""
    with in_evaluation_mode(model), torch.set_grad_enabled(with_grad):
        return model(*given, **named)


def record_dataflow(
    model: nn.Module,
    given: tuple[Any, ...],
    named: dict[str, Any],
    is_convolution: Callable[[nn.Module], bool],
    with_grad: bool = False,
) -> Dataflow:
    """Call the model as :func:`run` does, and return a record of the call.

    ``is_convolution`` says which of its modules are to be recorded.
    """
    own = set(model.modules())
    watch = _Watch(own, {each for each in own if is_convolution(each)})
    with watch.hooked(), watch.watching_scripts(), watch, warnings.catch_warnings():
        # a compiled module's own hooks are called twice, which does no harm here
        warnings.filterwarnings("ignore", "Using `torch.compile", UserWarning)
        output = tensors(run(model, given, named, with_grad))
    watch.end(output)
    return watch.flow


class _Watch(TorchFunctionMode):
    """A mode for functions, and hooks for modules, that follow tensors through a model's call."""

    def __init__(self, own: set[nn.Module], convolutions: set[nn.Module]) -> None:
        super().__init__()
        self.flow = Dataflow()
        self._own, self._convolutions = own, convolutions
        self._outputs: dict[int, _Output] = {}
        self._all: list[_Output] = []
        self._inside: list[tuple[nn.Module, int]] = []
        self._stack: list[ModuleCall] = []
        self._count = 0
        self._gates = GateTracker()

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Put hooks on all modules, for as long as the context lasts."""
        hooks = nn.modules.module
        with ExitStack() as stack:
            for hook in (
                hooks.register_module_forward_pre_hook(self._enter),
                hooks.register_module_forward_hook(self._leave),
                hooks.register_module_forward_hook(self._close, always_call=True),
                # not global: global hooks that take arguments by name leave traces in PyTorch
                *(
                    each.register_forward_hook(self._convolve, with_kwargs=True)
                    for each in self._convolutions
                ),
            ):
                stack.callback(hook.remove)
            yield

    @contextmanager
    def watching_scripts(self) -> Iterator[None]:
        """Record what TorchScript's functions and methods use, because no mode sees their calls."""
        kinds: tuple[Any, ...] = (torch._C.ScriptFunction, torch._C.ScriptMethod)
        own = [kind.__call__ for kind in kinds]

        def telling(call: Any) -> Any:
            def told(script: Any, *args: Any, **kwargs: Any) -> Any:
                for leaf in pytree.tree_leaves((args, kwargs)):
                    self._use(leaf, None)
                return call(script, *args, **kwargs)

            return told

        try:
            for kind, call in zip(kinds, own, strict=True):
                kind.__call__ = telling(call)
            yield
        finally:
            for kind, call in zip(kinds, own, strict=True):
                kind.__call__ = call

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self._count += 1
        result = func(*args, **kwargs)
        if func in CONVOLVING:
            self._convolved(CONVOLVING[func], result, *args, **kwargs)
        self._follow_gates(getattr(func, "__name__", ""), args, kwargs, result)
        name = _name(func)
        if name == "__getitem__" and self._is_head(result, *args):
            self._use(args[0], HEAD)
            self._follow(HEAD, self._outputs[id(args[0])], result)
        elif self._outputs and name not in _METADATA:
            for leaf in pytree.tree_leaves((args, kwargs)):
                self._use(leaf, None)
        return result

    def _follow_gates(self, name: str, given: tuple[Any, ...], named: Any, result: Any) -> None:
        """Record a convolution together with its gates, if this function completes it."""
        gates = self._gates
        if not named and gates.ends(name, given):
            call = _call_on(gates.whole)
            if gates.is_cut:
                call.behind.append(HEAD)
            if not call.is_cast and not call.needs_grad:
                self.flow.calls.setdefault(gates.convolved, []).append(call)
            gates.forget()
        gates.note(name, given, named, result)

    def _is_head(self, part: Any, whole: Any, index: Any) -> bool:
        """Return whether ``part`` is the first outputs of a convolution, one for each input sample.

        The index must give the same if the convolution computes no other outputs. An index with a
        negative end would then cut off more. If a module calls the convolution as a function, the
        index must be in that module, because others may call the module without the index.
        """
        output = self._outputs.get(id(whole))
        stop = getattr(index[-1], "stop", None) if isinstance(index, tuple) and index else None
        if output is None or output.place > 0 or stop is None or stop < 0:
            return False
        caller = output.call.caller
        if caller is not None and caller not in self._stack:
            return False
        shape = (*whole.shape[:-1], output.call.input.shape[-1])
        alike = part.stride() == whole.stride() and part.storage_offset() == whole.storage_offset()
        return bool(part.shape == shape and part.shape != whole.shape and alike)

    def _convolved(
        self, axes: int, output: Any, input: Any, weight: Any, bias: Any = None,  # noqa: A002
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> None:  # fmt: skip
        """Record a function's convolution if an operator is for it and no such module calls it."""
        if any(isinstance(each, nn.modules.conv._ConvNd | Tuned) for each, _ in self._stack):
            return
        if self._stack and (axes == 1 or 1 == weight.shape[1] < input.shape[-3]):
            signature = signature_of(weight, bias, stride, padding, dilation, groups)
            within = self._stack[-1][0]
            self._record_call(FunctionCall(within, signature), input, output)
            if axes == 1 and self._gates.is_product(input):
                self._gates.convolution(output, FunctionCall(within, signature, gated=True))

    def _enter(self, module: nn.Module, given: tuple[Any, ...]) -> None:
        if module not in self._own:
            return
        self._stack.append((module, self._count))
        self.flow.times[module] += 1
        if len(given) == 1 and may_follow(module) and id(given[0]) in self._outputs:
            self._use(given[0], module)
            self._inside.append((module, id(given[0])))

    def _close(self, module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if module in self._own:
            if not may_follow(module) and any(output is each for each in given):
                self._use(output, None)  # it may return something else in training mode
            self._gates.forget()
            _, before = self._stack.pop()
            self.flow.functions[module] += self._count - before

    def _convolve(
        self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any
    ) -> None:
        x = given[0] if given else named.get("input")
        if isinstance(x, torch.Tensor) and isinstance(output, torch.Tensor):
            self._record_call(module, x, output)

    def _record_call(self, convolution: nn.Module | FunctionCall, x: Any, output: Any) -> None:
        call = _call_on(x)
        if isinstance(convolution, FunctionCall):
            call.caller = self._stack[-1]
        self.flow.calls.setdefault(convolution, []).append(call)
        self._keep(output, call)

    def _leave(self, module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if self._inside and self._inside[-1][0] is module:
            _, taken = self._inside.pop()
            before = self._outputs[taken]
            if isinstance(output, torch.Tensor) and output.shape == before.shape:
                self._follow(module, before, output)

    def _follow(self, module: nn.Module, before: _Output, output: torch.Tensor) -> None:
        """Record that a module took ``before`` and returned ``output``."""
        before.call.behind.append(module)
        self._keep(output, before.call)

    def _keep(self, tensor: torch.Tensor, call: ConvolutionCall) -> None:
        output = _Output(call, tensor.shape, len(call.behind))
        self._outputs[id(tensor)] = output
        self._all.append(output)
        weakref.finalize(tensor, self._outputs.pop, id(tensor), None)

    def _use(self, tensor: Any, by: nn.Module | None) -> None:
        """Record a use of a tensor, if it is followed, ``by`` a module or, if None, by anything
        else."""
        while isinstance(tensor, torch.Tensor) and functorch.is_functorch_wrapped_tensor(tensor):
            tensor = functorch.get_unwrapped(tensor)  # torch.vmap's, say
        output = self._outputs.get(id(tensor)) if isinstance(tensor, torch.Tensor) else None
        if output is not None and (by is not None or not self._is_inside(tensor)):
            output.uses.append(by)

    def _is_inside(self, tensor: torch.Tensor) -> bool:
        return any(entered == id(tensor) for _, entered in self._inside)

    def end(self, returned: list[torch.Tensor]) -> None:
        """Cut the modules behind each call from the first output that has a second use or is kept.

        ``returned`` are the tensors that the model returned. The list is cleared, because their
        graph of gradients keeps outputs, too.
        """
        self.flow.output = [self._used(tensor) for tensor in returned]
        returned.clear()
        if any(output.follower for output in self._outputs.values()):
            gc.collect()
        kept = {id(output) for output in self._outputs.values()}
        for output in self._all:
            follower = output.follower
            is_kept = id(output) in kept
            if follower is not None and (is_kept or output.uses != [follower]):
                why = "the model keeps" if is_kept else "something else also uses"
                output.call.apart = f"{type(follower).__name__} stays, because {why} its input"
                del output.call.behind[output.place :]

    def _used(self, tensor: torch.Tensor) -> torch.Tensor:
        self._use(tensor, None)
        return tensor.detach()


def _call_on(x: Any) -> ConvolutionCall:
    """Return a call on an input, without anything behind it."""
    dtype = autocast.taken_dtype(x)
    without = torch.empty_strided(x.shape, x.stride(), dtype=dtype, device="meta")
    return ConvolutionCall(without, x.device, x.requires_grad, autocast.is_on(x.device.type))


def may_follow(module: nn.Module) -> bool:
    """Return whether the module is a batch norm or an activation that a kernel can take in."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm) or (
        activations.of(module) is not None
    )


def _name(function: Any) -> str:
    """Return a function's name, or the attribute's name if it is a getter."""
    owner = getattr(function, "__self__", None)
    if inspect.isgetsetdescriptor(owner):
        return str(owner.__name__)
    return str(getattr(function, "__name__", ""))
