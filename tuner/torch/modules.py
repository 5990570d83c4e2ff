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

from templates.workload import Workload
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.torch import replaced as torch_replaced
from tuner.torch.replaced import only
from tuner.torch.tuned_module import Tuned

__all__ = ["Conv1d", "DepthwiseConv2d", "Tuned"]


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
        """In a ``torch.nn.Conv2d``'s place, with its own parameters and parametrisations. Raises
        WrongArgument if it is not the operator, or a class of its own, or has hooks."""
        torch_replaced.check(module, torch.nn.Conv2d)
        channels, size = module.in_channels, module.kernel_size[0]
        only(
            module,
            out_channels=channels,
            groups=channels,
            kernel_size=(size, size),
            dilation=(1, 1),
            padding_mode="zeros",
        )
        stride = module.stride[0]
        only(module, stride=(2, 2) if stride == 2 else (1, 1))
        same = module.padding == "same" and size % 2 == 1
        if not same:
            only(module, padding=(size // 2, size // 2))
        weight, bias = module.weight, module.bias
        made = cls(weight, bias, source=source, stride=stride, max_error=max_error)
        torch_replaced.take_over(module, made)
        return made

    def extra_repr(self) -> str:
        return f"{self.channels} channels, kernel {self.size}, stride={self.stride}"

    def _plain(self, x: Any, weight: Any, bias: Any) -> Any:
        return functional.conv2d(
            x,
            weight,
            bias,
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
        return work.output.shape[4 - x.ndim :]

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (self.channels, 1, 1)
