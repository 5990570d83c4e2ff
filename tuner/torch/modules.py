"""PyTorch modules that call a tuned kernel if there is one for their input's shape, and PyTorch
if there is none. Not imported by anything else here: it needs PyTorch.

    from tuner.client import Client
    from tuner.torch.modules import DepthwiseConv2d

    module = DepthwiseConv2d.of(model.conv, source=Client("http://gpu-host:8000"))
    with torch.no_grad():
        y = module(x)
    print(module.used, module.reason)
"""

from __future__ import annotations

from typing import Any, Literal, Self

import torch
from torch.nn import functional

from templates.conv1d.workload import Mode, padding
from templates.workload import Workload
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.torch import replaced as torch_replaced
from tuner.torch.replaced import only
from tuner.torch.tuned_module import Tuned

__all__ = ["Conv1d", "DepthwiseConv2d", "Tuned"]

STRIDES = (1, 2, 3, 4)


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
        mode: Mode = "full",
        kind: Literal["convolve", "correlate"] = "convolve",
        max_error: float | None = None,
    ) -> None:
        super().__init__(weight, bias, source, max_error)
        self.mode, self.kind = mode, kind
        self.taps = self.weight.numel()
        self._padding = padding(mode, self.taps)

    @classmethod
    def of(cls, module: Any, *, source: Source, max_error: float | None = None) -> Self:
        """In a ``torch.nn.Conv1d``'s place, with its own parameters and parametrisations. Raises
        WrongArgument if it is not the operator, or a class of its own, or has hooks."""
        torch_replaced.check(module, torch.nn.Conv1d)
        taps = module.kernel_size[0]
        only(
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
        mode = modes[module.padding]
        weight, bias = module.weight, module.bias
        made = cls(weight, bias, source=source, mode=mode, kind="correlate", max_error=max_error)
        torch_replaced.take_over(module, made)
        return made

    def extra_repr(self) -> str:
        return f"{self.taps} taps, mode={self.mode}, kind={self.kind}"

    def _plain(self, x: Any, weight: Any, bias: Any) -> Any:
        weight = weight.reshape(1, 1, self.taps)
        bias = None if bias is None else bias.reshape(1)
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
        return (*x.shape[:-1], *work.output.shape)

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (1,)


class DepthwiseConv2d(Tuned):
    """PyTorch's ``conv2d`` with ``groups = channels``: ``weight`` is (C * multiplier, 1, KH, KW),
    ``bias`` (C * multiplier,), the input (B, C, H, W), in memory with its channels last too, or
    (C, H, W). ``channels`` are the weight's if they are not given; ``padding`` is at the top, left,
    bottom and right, by default half the kernel."""

    operator = "depthwise_conv2d"

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        *,
        source: Source,
        stride: Literal[1, 2, 3, 4] = 1,
        padding: tuple[int, int, int, int] | None = None,
        dilation: int = 1,
        channels: int | None = None,
        max_error: float | None = None,
    ) -> None:
        super().__init__(weight, bias, source, max_error)
        shape = tuple(self.weight.shape)
        if len(shape) != 4 or shape[1] != 1 or shape[0] % (channels or shape[0]):
            of = "C" if channels is None else f"a multiple of {channels}"
            raise WrongArgument(f"the weight must have shape ({of}, 1, KH, KW), but has {shape}")
        if stride not in STRIDES:
            raise WrongArgument(f"stride is {stride}, and the operator's 1 to {STRIDES[-1]}")
        self.stride, self.dilation = stride, dilation
        self.channels = channels or shape[0]
        self.multiplier = shape[0] // self.channels
        self.size: tuple[int, int] = shape[2:]
        height, width = self.size
        self.padding = padding or (height // 2, width // 2, height // 2, width // 2)

    @classmethod
    def of(cls, module: Any, *, source: Source, max_error: float | None = None) -> Self:
        """In a ``torch.nn.Conv2d``'s place, with its own parameters and parametrisations. Raises
        WrongArgument if it is not the operator, or a class of its own, or has hooks."""
        torch_replaced.check(module, torch.nn.Conv2d)
        stride, dilation = module.stride[0], module.dilation[0]
        only(
            module,
            groups=module.in_channels,
            stride=(stride, stride),
            dilation=(dilation, dilation),
            padding_mode="zeros",
        )
        made = cls(
            module.weight,
            module.bias,
            source=source,
            stride=stride,
            padding=_sides(module),
            dilation=dilation,
            channels=module.in_channels,
            max_error=max_error,
        )
        torch_replaced.take_over(module, made)
        return made

    def extra_repr(self) -> str:
        size = "x".join(map(str, self.size))
        return f"{self.channels} channels, kernel {size}, stride={self.stride}"

    def _plain(self, x: Any, weight: Any, bias: Any) -> Any:
        top, left, bottom, right = self.padding
        around = (top, left)
        if around != (bottom, right):
            x, around = functional.pad(x, (left, right, top, bottom)), (0, 0)
        return functional.conv2d(
            x,
            weight,
            bias,
            stride=self.stride,
            padding=around,
            dilation=self.dilation,
            groups=self.channels,
        )

    def _fields(self, x: Any) -> dict[str, Any] | str:
        if x.ndim not in (3, 4) or x.shape[-3] != self.channels:
            return f"the input has shape {tuple(x.shape)}, not (B, {self.channels}, H, W)"
        return {
            "B": x.shape[0] if x.ndim == 4 else 1,
            "C": self.channels,
            "H": x.shape[-2],
            "W": x.shape[-1],
            "KH": self.size[0],
            "KW": self.size[1],
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "multiplier": self.multiplier,
            "layout": "NCHW" if x.is_contiguous() else "NHWC",
        }

    def _is_dense(self, x: Any) -> bool:
        return super()._is_dense(x) or (
            x.ndim == 4 and bool(x.is_contiguous(memory_format=torch.channels_last))
        )

    def _taken(self, x: Any, work: Any) -> Any:
        return x.permute(0, 2, 3, 1) if work.layout == "NHWC" else super()._taken(x, work)

    def _given_back(self, y: Any, x: Any, work: Any) -> Any:
        return y.permute(0, 3, 1, 2) if work.layout == "NHWC" else super()._given_back(y, x, work)

    def _shape_of_output(self, x: Any, work: Workload) -> tuple[int, ...]:
        return work.output.shape[4 - x.ndim :]

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (self.channels * self.multiplier, 1, 1)


def _sides(module: Any) -> tuple[int, int, int, int]:
    """A convolution's padding at the top, left, bottom and right. PyTorch's "same" has the odd
    element at the bottom and right."""
    if module.padding == "valid":
        return (0, 0, 0, 0)
    if module.padding == "same":
        steps = zip(module.dilation, module.kernel_size, strict=True)
        height, width = (step * (taps - 1) for step, taps in steps)
        return (height // 2, width // 2, height - height // 2, width - width // 2)
    height, width = module.padding
    return (height, width, height, width)
