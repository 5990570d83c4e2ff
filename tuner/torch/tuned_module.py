"""What PyTorch modules with a tuned kernel share."""

from __future__ import annotations

import logging
from abc import abstractmethod
from copy import deepcopy
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import ValidationError

import templates
from templates.workload import Workload
from tuner.client.answers import Best
from tuner.client.source import Source
from tuner.device import cpu_facts
from tuner.errors import ForeignDevice, NotTuned, TunerError, WrongArgument
from tuner.library import torch_transforms
from tuner.library.load import Library
from tuner.torch import operator as torch_operator

log = logging.getLogger("tuner.torch.modules")

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_CHANNELS_FIRST, _CHANNELS_LAST = ("NCHW", "NCW"), ("NHWC", "NWC")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Tuned(torch.nn.Module):
    """What both modules share. ``source`` is a Client, or a Local database; ``max_error`` the
    accuracy that is asked for, by default the operator's.

    A shape is looked up at its first call, with its bias in the kernel or, if only that is tuned,
    without, and what was found is kept: :meth:`forget` has it looked up anew. ``used`` says what
    computed the last output, "tuned" or "pytorch", ``reason`` why; each reason is logged once. A
    tuned kernel has no backward, and PyTorch does not see it: if grad is needed, or something
    records or transforms the call, PyTorch computes; and so it does if it was faster when the shape
    was tuned.

    A copy shares the source. A file has none: set ``source`` after loading.
    """

    operator: ClassVar[str]
    bias: torch.nn.Parameter | None
    used: Literal["tuned", "pytorch"] | None = None
    reason: str = ""

    def __init__(
        self, weight: Any, bias: Any, source: Source, max_error: float | None = None
    ) -> None:
        super().__init__()
        self.weight = _parameter(weight)
        self.register_parameter("bias", None if bias is None else _parameter(bias))
        self.source: Source | None = source
        self.max_error = max_error
        self._number = torch_operator.numbered(self)
        self.forget()

    def forget(self) -> None:
        """Look every shape up again."""
        self._found: dict[Any, Library | str] = {}
        self._said: set[str] = set()
        self._views: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # what was found is of this process, and the views of this module's parameters
        own: dict[str, Any] = {"_found": {}, "_said": set(), "_views": {}}
        return self.__dict__ | own | {"source": _Shared(self.source)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(  # type: ignore[no-untyped-call]
            state | {"source": state["source"].source}
        )
        self._number = torch_operator.numbered(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # a parametrised module has a copy of its own else, which knows nothing of __setstate__
        copied = self.__new__(type(self))
        memo[id(self)] = copied
        Tuned.__setstate__(copied, deepcopy(Tuned.__getstate__(self), memo))
        return copied

    def forward(self, x: Any) -> Any:
        if torch.compiler.is_exporting():
            return self.plain(x, self.weight, self.bias)
        if torch.compiler.is_compiling():
            return self._compiled(x)
        return self.computed(x, self._current("weight"), self._current("bias"))

    def _compiled(self, x: Any) -> Any:
        """One operator in a graph; or PyTorch's convolution, of what only PyTorch knows, in
        forward-mode differentiation, or if autocast is on."""
        weight, bias = self.weight, self.bias
        given = (x, weight) if bias is None else (x, weight, bias)
        known = x.device.type in ("cpu", "cuda") and all(type(each) in _PLAIN for each in given)
        forward = torch.autograd.forward_ad._current_level >= 0
        if not known or forward or torch.is_autocast_enabled(x.device.type):
            return self.plain(x, weight, bias)
        return torch_operator.call(x, weight, bias, self._number)

    def computed(self, x: Any, weight: Any, bias: Any) -> Any:
        """The output for the current weight and bias, by a tuned kernel if there is one."""
        given = (x, weight) if bias is None else (x, weight, bias)
        found = self._only_pytorchs(*given) or self._unfit(x, weight, bias) or self._library(x)
        if isinstance(found, str):
            return self._by_pytorch(x, weight, bias, found)
        flat = x.detach() if x.requires_grad else x
        work: Any = found.workload
        views = [self._viewed("weight", weight, work)]
        if work.bias:
            views.append(self._viewed("bias", bias, work))
        try:
            y = self._given_back(found(self._taken(flat, work), *views), x, work)
        except WrongArgument as error:
            return self._by_pytorch(x, weight, bias, str(error))
        self.used, self.reason = "tuned", found.manifest["template"]
        if self.reason not in self._said:
            self._say(logging.INFO)
        if bias is not None and not work.bias:
            y += bias.detach().view(self._shape_of_bias)
        return y

    def _current(self, name: str) -> Any:
        """A parameter; or, where it is parametrised, what that makes of it now."""
        own = self._parameters
        return own[name] if name in own else getattr(self, name)

    def _by_pytorch(self, x: Any, weight: Any, bias: Any, reason: str) -> Any:
        self.used, self.reason = "pytorch", reason
        if reason not in self._said:
            self._say(logging.WARNING)
        return self.plain(x, weight, bias)

    def _say(self, level: int) -> None:
        self._said.add(self.reason)
        log.log(level, "%s is computed by %s: %s", type(self).__name__, self.used, self.reason)

    @staticmethod
    def _only_pytorchs(*tensors: Any) -> str | None:
        """Why only PyTorch's own operators know what to do with these."""
        for tensor in tensors:
            if type(tensor) not in _PLAIN:
                return f"it takes a {type(tensor).__name__}, and a library plain tensors"
        return torch_transforms.loses(*tensors)

    def _unfit(self, x: Any, weight: Any, bias: Any) -> str | None:
        """Why no library could be called on this, whatever is tuned."""
        if torch.is_grad_enabled() and (
            x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        ):
            return "grad is needed, which a tuned kernel can't give; call it under torch.no_grad()"
        if x.dtype != weight.dtype or x.dtype not in DTYPES:
            known = ", ".join(DTYPES.values())
            return f"input is {x.dtype}, weight {weight.dtype}; both must be one of {known}"
        if x.device != weight.device or x.device.type not in ("cpu", "cuda"):
            return f"the input is on {x.device} and the weight on {weight.device}"
        if torch.is_autocast_enabled(x.device.type):
            return "autocast is on, which chooses the dtype itself"
        if x.layout != torch.strided or not (self._is_dense(x) and weight.is_contiguous()):
            return "input and weight must be contiguous; call .contiguous() on them"
        return None

    def _library(self, x: Any) -> Library | str:
        if self.source is None:
            return "a module has no source when it comes from a file; set its source"
        key = (x.shape, x.dtype, x.device, x.is_contiguous(), self._current("bias") is None)
        found = self._found.get(key)
        if found is None:
            if x.is_cuda and torch.cuda.is_current_stream_capturing():
                return "a CUDA graph is captured, and this shape was not called before"
            found = self._found[key] = self._looked_up(x)
        return found

    def _looked_up(self, x: Any) -> Library | str:
        fields = self._fields(x)
        if isinstance(fields, str):
            return fields
        if self.max_error is not None:
            fields["max_error"] = self.max_error
        fields["dtype"] = DTYPES[x.dtype]
        # tuned without its bias, a kernel is called and the bias added
        wanted = [fields] if self._current("bias") is None else [fields | {"bias": True}, fields]
        reasons = []
        for each in wanted:
            try:
                return self._tuned(each, x.device)
            except NotTuned as missing:
                reasons.append(str(missing))
        return reasons[0]

    def _tuned(self, fields: dict[str, Any], device: Any) -> Library | str:
        """The library of that workload, or why it can't be called. Raises NotTuned."""
        try:
            wanted = templates.operator(self.operator).workload.model_validate(fields)
        except ValidationError as error:
            return f"the operator has limits: {error.errors()[0]['msg']}"
        try:
            return self._fitting(self.source, wanted, device)
        except NotTuned:
            raise
        except TunerError as error:
            return str(error)

    def _fitting(self, source: Any, wanted: Workload, device: Any) -> Library | str:
        """That of the very device, or of another CPU whose instructions are here too."""
        on_gpu = device.type == "cuda"
        name = torch.cuda.get_device_name(device) if on_gpu else cpu_facts.name()
        shape = wanted.model_dump()
        try:
            best = source.best(self.operator, shape, target=device.type, device=name)
        except NotTuned:
            if on_gpu:
                raise
            best = source.best(self.operator, shape, target=device.type)
        faster = _faster_pytorch(best, shape["layout"] in _CHANNELS_LAST)
        if faster is not None:
            return faster
        library: Library = source.load(best)
        if library.workload != wanted:
            raise ForeignDevice(f"the source answered with a library of {library.workload.key}")
        return library

    def _viewed(self, name: str, parameter: Any, work: Workload) -> Any:
        """The weight or the bias as the library takes it, in the same memory."""
        view = self._views.get(name)
        if view is None or view.data_ptr() != parameter.data_ptr():  # moved, or of another dtype
            (shape,) = (argument.shape for argument in work.given if argument.name == name)
            view = self._views[name] = parameter.detach().view(shape)
        return view

    def _is_dense(self, x: Any) -> bool:
        """Whether a library could take the input as it lies in memory."""
        contiguous: bool = x.is_contiguous()
        return contiguous

    def _taken(self, x: Any, work: Workload) -> Any:
        """The input as the library takes it, in the same memory."""
        wanted = work.given[0].shape
        return x if x.shape == wanted else x.view(wanted)

    def _given_back(self, y: Any, x: Any, work: Workload) -> Any:
        """The output as PyTorch would return it for ``x``, in the same memory."""
        return y if y.ndim == x.ndim else y.view(self._shape_of_output(x, work))

    @abstractmethod
    def plain(self, x: Any, weight: Any, bias: Any) -> Any:
        """The output by PyTorch alone."""

    @abstractmethod
    def laid_out(self, y: Any, x: Any) -> Any:
        """The output with its channels where those of the input are in memory."""

    @abstractmethod
    def _fields(self, x: Any) -> dict[str, Any] | str:
        """The workload of that input, or why it has none."""

    @abstractmethod
    def _shape_of_output(self, x: Any, work: Workload) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def _shape_of_bias(self) -> tuple[int, ...]: ...


def _parameter(given: Any) -> Any:
    """A parameter as it is, so that a module and its replacement train as one; a plain tensor as a
    parameter that needs no grad unless the tensor does."""
    if isinstance(given, torch.nn.Parameter):
        return given
    return torch.nn.Parameter(given.detach(), requires_grad=given.requires_grad)


def _faster_pytorch(best: Best, channels_last: bool) -> str | None:
    """What PyTorch took in the round, where it was faster called as a module calls it: on what
    comes, as it is written, without transforms, and not in another layout. To convert would cost
    more than it gains."""
    fastest = best.fastest
    if fastest is None or not fastest.name.startswith("pytorch"):
        return None
    others = _CHANNELS_FIRST if channels_last else _CHANNELS_LAST
    speedups = [
        row["speedup"]
        for row in best.model_dump()["baselines"] or ()
        if row["name"].startswith("pytorch") and row.get("speedup")
        if not any(each in row["name"].split() for each in (*others, "fft", "compiled"))
    ]
    if min(speedups, default=0) >= 1:
        return None
    return f"{fastest.name} was the fastest when this shape was tuned: {fastest.time_us:.4g} µs"


class _Shared:
    """A source within a module's state: its copies have the same, its files none."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Shared, ()
