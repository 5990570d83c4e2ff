"""PyTorch modules that call a tuned kernel where there is one for their input's shape, and PyTorch
where there is none. Not imported by anything else here: it needs PyTorch.

    from tuner.client import Client
    from tuner.torch_modules import DepthwiseConv2d

    module = DepthwiseConv2d.of(model.conv, source=Client("http://gpu-host:8000"))
    with torch.no_grad():
        y = module(x)
    print(module.used, module.reason)
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import ValidationError
from torch.nn import functional

import templates
from templates.workload import Workload
from tuner import cpu_facts
from tuner.errors import ForeignDevice, NotTuned, TunerError, WrongArgument
from tuner.load import Library
from tuner.source import Source

log = logging.getLogger(__name__)

DTYPES = {torch.float32: "float32", torch.float16: "float16"}


class Tuned(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not there when types are checked
    """What both modules share. ``source`` is a Client, or a Local database; ``max_error`` the
    accuracy that is asked for, by default the operator's.

    A shape is looked up at its first call, and what was found is kept: :meth:`forget` has it
    looked up anew. ``used`` says what computed the last output, "tuned" or "pytorch", ``reason``
    why; each reason is logged once. A tuned kernel has no backward: where grad is needed, PyTorch
    computes.
    """

    operator: ClassVar[str]
    used: Literal["tuned", "pytorch"] | None = None
    reason: str = ""

    def __init__(
        self, weight: Any, bias: Any, source: Source, max_error: float | None = None
    ) -> None:
        super().__init__()
        self.weight = _parameter(weight)
        self.register_parameter("bias", None if bias is None else _parameter(bias))
        self.source = source
        self.max_error = max_error
        self.forget()

    def forget(self) -> None:
        """Look every shape up again."""
        self._found: dict[Any, Library | str] = {}
        self._said: set[str] = set()
        self._view: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # a loaded library can't be copied, and the view is of this module's weight
        return {**self.__dict__, "_found": {}, "_said": set(), "_view": None}

    def forward(self, x: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._uncompiled(x)
        return self._computed(x)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _uncompiled(self, x: Any) -> Any:
        return self._computed(x)

    def _computed(self, x: Any) -> Any:
        weight, bias = self._parameters["weight"], self._parameters["bias"]
        found = self._unfit(x, weight, bias) or self._library(x)
        if isinstance(found, str):
            return self._by_pytorch(x, found)
        flat = x.detach() if x.requires_grad else x
        try:
            y = found(flat.view(found.workload.input_shape), self._kernel(weight, found.workload))
        except WrongArgument as error:
            return self._by_pytorch(x, str(error))
        self.used, self.reason = "tuned", found.manifest["template"]
        if self.reason not in self._said:
            self._say(logging.INFO)
        if bias is not None:
            y += bias.detach().view(self._shape_of_bias)
        return y if y.ndim == x.ndim else y.view(self._shape_of_output(x, found.workload))

    def _by_pytorch(self, x: Any, reason: str) -> Any:
        self.used, self.reason = "pytorch", reason
        if reason not in self._said:
            self._say(logging.WARNING)
        return self._plain(x)

    def _say(self, level: int) -> None:
        self._said.add(self.reason)
        log.log(level, "%s is computed by %s: %s", type(self).__name__, self.used, self.reason)

    def _unfit(self, x: Any, weight: Any, bias: Any) -> str | None:
        """Why no library could be called on this, whatever is tuned."""
        if torch.is_grad_enabled() and (
            x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
        ):
            return "grad is needed, which a tuned kernel can't give; call it under torch.no_grad()"
        if x.dtype != weight.dtype or x.dtype not in DTYPES:
            return f"input is {x.dtype}, weight {weight.dtype}; both must be float32 or float16"
        if x.device != weight.device or x.device.type not in ("cpu", "cuda"):
            return f"the input is on {x.device} and the weight on {weight.device}"
        if torch.is_autocast_enabled(x.device.type):
            return "autocast is on, which chooses the dtype itself"
        if x.layout != torch.strided or not (x.is_contiguous() and weight.is_contiguous()):
            return "input and weight must be contiguous; call .contiguous() on them"
        return None

    def _library(self, x: Any) -> Library | str:
        key = (x.shape, x.dtype, x.device)
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
        model = templates.operator(self.operator).workload
        try:
            wanted = model.model_validate(fields | {"dtype": DTYPES[x.dtype]})
        except ValidationError as error:
            return f"the operator has limits: {error.errors()[0]['msg']}"
        try:
            return self._fitting(wanted, x.device)
        except TunerError as error:
            return str(error)

    def _fitting(self, wanted: Workload, device: Any) -> Library:
        """That of the very device, or of another CPU whose instructions are here too."""
        on_gpu = device.type == "cuda"
        name = torch.cuda.get_device_name(device) if on_gpu else cpu_facts.name()
        shape = wanted.model_dump()
        try:
            best = self.source.best(self.operator, shape, target=device.type, device=name)
        except NotTuned:
            if on_gpu:
                raise
            best = self.source.best(self.operator, shape, target=device.type)
        library = self.source.load(best)
        if library.workload != wanted:
            raise ForeignDevice(f"the source answered with a library of {library.workload.key}")
        return library

    def _kernel(self, weight: Any, work: Workload) -> Any:
        """The weight as the library takes it, in the same memory."""
        view = self._view
        if view is None or view.data_ptr() != weight.data_ptr():  # moved, or of another dtype
            view = self._view = weight.detach().view(work.weight_shape)
        return view

    @abstractmethod
    def _plain(self, x: Any) -> Any:
        """The output by PyTorch alone."""

    @abstractmethod
    def _fields(self, x: Any) -> dict[str, Any] | str:
        """The workload of that input, or why it has none."""

    @abstractmethod
    def _shape_of_output(self, x: Any, work: Workload) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def _shape_of_bias(self) -> tuple[int, ...]: ...


class Conv1d(Tuned):
    """One kernel over one signal: ``numpy.convolve`` or ``numpy.correlate`` of an input of shape
    (M,), (1, M) or (1, 1, M), the output has as many dimensions. ``weight`` has N elements,
    ``bias`` one."""

    operator = "conv1d"

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        *,
        source: Source,
        mode: Literal["full", "same", "valid"] = "full",
        kind: Literal["convolve", "correlate"] = "convolve",
        max_error: float | None = None,
    ) -> None:
        super().__init__(weight, bias, source, max_error)
        self.mode, self.kind = mode, kind
        self.taps = self.weight.numel()
        left = {"full": self.taps - 1, "same": self.taps // 2, "valid": 0}[mode]
        right = {"full": self.taps - 1, "same": self.taps - 1 - left, "valid": 0}[mode]
        self._padding = (left, right)

    @classmethod
    def of(cls, module: Any, *, source: Source, max_error: float | None = None) -> Self:
        """In a ``torch.nn.Conv1d``'s place, with its own parameters. Raises WrongArgument where it
        is not the operator."""
        taps = module.kernel_size[0]
        _only(
            module, in_channels=1, out_channels=1, stride=(1,), dilation=(1,), padding_mode="zeros"
        )
        modes: dict[Any, Any] = {(0,): "valid", "valid": "valid", (taps - 1,): "full"}
        if taps % 2:
            modes |= {(taps // 2,): "same", "same": "same"}
        if module.padding not in modes:
            raise WrongArgument(
                f"{module} has padding {module.padding}, and the operator none, or such that every "
                "sample meets every tap, or with an odd kernel such that the length stays"
            )
        return cls(
            module.weight,
            module.bias,
            source=source,
            mode=modes[module.padding],
            kind="correlate",
            max_error=max_error,
        )

    def extra_repr(self) -> str:
        return f"{self.taps} taps, mode={self.mode}, kind={self.kind}"

    def _plain(self, x: Any) -> Any:
        weight = self.weight.reshape(1, 1, self.taps)
        bias = None if self.bias is None else self.bias.reshape(1)
        if self.kind == "convolve":
            weight = weight.flip(-1)
        signal = x.reshape(1, 1, -1) if x.ndim < 3 and x.numel() == x.shape[-1] else x
        left, right = self._padding
        if left != right:
            signal = functional.pad(signal, (left, right))
        y = functional.conv1d(signal, weight, bias, padding=left if left == right else 0)
        return y.view((*x.shape[:-1], y.shape[-1]))

    def _fields(self, x: Any) -> dict[str, Any] | str:
        if x.ndim > 3 or x.numel() != x.shape[-1]:
            return f"the input has shape {tuple(x.shape)}, and the operator takes one signal"
        return {"M": x.shape[-1], "N": self.taps, "mode": self.mode, "kind": self.kind}

    def _shape_of_output(self, x: Any, work: Workload) -> tuple[int, ...]:
        return (*x.shape[:-1], *work.output_shape)

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (1,)


class DepthwiseConv2d(Tuned):
    """PyTorch's ``conv2d`` with ``groups = C`` and padding ``K // 2``: ``weight`` is (C, 1, K, K)
    with an odd K, ``bias`` (C,), the input (B, C, H, W) or (C, H, W)."""

    operator = "depthwise_conv2d"

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        *,
        source: Source,
        stride: Literal[1, 2] = 1,
        max_error: float | None = None,
    ) -> None:
        super().__init__(weight, bias, source, max_error)
        self.stride = stride
        if self.weight.ndim != 4 or self.weight.shape[1] != 1 or self.weight.shape[2] % 2 == 0:
            raise WrongArgument(
                "the weight must have shape (C, 1, K, K) with an odd K, but has "
                f"{tuple(self.weight.shape)}"
            )
        self.channels, _, self.size, _ = self.weight.shape

    @classmethod
    def of(cls, module: Any, *, source: Source, max_error: float | None = None) -> Self:
        """In a ``torch.nn.Conv2d``'s place, with its own parameters. Raises WrongArgument where it
        is not the operator."""
        channels, size = module.in_channels, module.kernel_size[0]
        _only(
            module,
            out_channels=channels,
            groups=channels,
            kernel_size=(size, size),
            dilation=(1, 1),
            padding_mode="zeros",
        )
        stride = module.stride[0]
        _only(module, stride=(2, 2) if stride == 2 else (1, 1))
        same = module.padding == "same" and size % 2 == 1
        if not same:
            _only(module, padding=(size // 2, size // 2))
        return cls(module.weight, module.bias, source=source, stride=stride, max_error=max_error)

    def extra_repr(self) -> str:
        return f"{self.channels} channels, kernel {self.size}, stride={self.stride}"

    def _plain(self, x: Any) -> Any:
        return functional.conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.size // 2,
            groups=self.channels,
        )

    def _fields(self, x: Any) -> dict[str, Any] | str:
        if x.ndim not in (3, 4) or x.shape[-3] != self.channels:
            return f"the input has shape {tuple(x.shape)}, not (B, {self.channels}, H, W)"
        batch = x.shape[0] if x.ndim == 4 else 1
        shape = {"B": batch, "C": self.channels, "H": x.shape[-2], "W": x.shape[-1]}
        return shape | {"K": self.size, "stride": self.stride}

    def _shape_of_output(self, x: Any, work: Workload) -> tuple[int, ...]:
        return work.output_shape[4 - x.ndim :]

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (self.channels, 1, 1)


def _parameter(given: Any) -> Any:
    """A parameter as it is, so that a module and its replacement train as one; a plain tensor as a
    parameter that needs no grad unless the tensor does."""
    if isinstance(given, torch.nn.Parameter):
        return given
    return torch.nn.Parameter(given.detach(), requires_grad=given.requires_grad)


def _only(module: Any, **expected: Any) -> None:
    """Raises WrongArgument where the module has another value."""
    for name, value in expected.items():
        if getattr(module, name) != value:
            raise WrongArgument(
                f"{module} has {name} {getattr(module, name)}, and the operator {value}; "
                "leave this one to PyTorch"
            )
