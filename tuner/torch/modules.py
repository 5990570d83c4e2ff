"""PyTorch modules that call a tuned kernel if there is one for their input's shape, else PyTorch.

``of`` makes one in the place of a PyTorch module:

    from tuner.client import Client
    from tuner.torch.modules import DepthwiseConv2d

    module = DepthwiseConv2d.of(model.conv, source=Client("http://gpu-host:8000"))
    with torch.no_grad():
        y = module(x)
    print(module.used, module.reason)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import torch

from templates.argument import Argument
from templates.conv1d.workload import Kind, Mode
from templates.conv1d.workload import padding as padding_of
from templates.epilogue import Activation
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.torch import arguments
from tuner.torch import replaced as torch_replaced
from tuner.torch.functional import convolutions
from tuner.torch.functional.padding import (
    Sides,
    conv1d_padding,
    conv2d_padding,
    halved,
    same_padding,
)
from tuner.torch.replaced import require
from tuner.torch.tuned_module import Tuned

__all__ = ["Conv1d", "DepthwiseConv2d", "Tuned"]

STRIDES = (1, 2, 3, 4)
SAME = "Conv2dSame"


class Conv1d(Tuned):
    """PyTorch's ``conv1d``, by tuned kernels: see :class:`Tuned`. Raises WrongArgument.

    ``weight`` is (F, C / groups, N) with ``groups`` 1 or C, or (N,) for one kernel of one channel;
    ``bias`` is (F,). The input is (B, C, M), maybe with its channels last in memory, (C, M), or
    (M,) for one channel and one kernel. The output has as many dimensions. ``padding`` is the zeros
    (before, behind) the input; ``mode`` names them instead, as in ``numpy.convolve``, by default
    "full". ``kind`` is "convolve", as in NumPy, or "correlate", as in PyTorch."""

    operator = "conv1d"
    AXES = 1
    _causal_lengths: frozenset[int] = frozenset()
    """The only input lengths at which a causal layer leaves out outputs; empty for all lengths."""
    _is_same: bool = False
    """Whether the padding is PyTorch's "same", which depends on the number of taps."""
    ORDERS: ClassVar = {"NWC": ((0, 2, 1), (0, 2, 1))}

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        *,
        source: Source,
        mode: Mode | None = None,
        padding: tuple[int, int] | None = None,
        kind: Kind = "convolve",
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        activation: Activation = "none",
        max_error: float | None = None,
    ) -> None:
        super().__init__(weight, bias, source, max_error, activation)
        shape: tuple[int, ...] = tuple(self.weight.shape)
        many = shape if len(shape) == 3 else (1, 1, int(self.weight.numel()))
        self.filters: int = many[0]
        self.taps: int = many[2]
        groups = arguments.whole("groups", groups)
        self.channels = many[1] * groups
        fits = groups in (1, self.channels) and self.filters % groups == 0
        if (len(shape) != 3 and shape != (self.taps,)) or not fits:
            raise WrongArgument(
                f"the weight must have shape (F, C / groups, N) with groups 1 or C, or (N,), but "
                f"has {shape}, and groups is {groups}"
            )
        if mode is not None and padding is not None:
            raise WrongArgument("give mode or padding, not both")
        if mode is not None:
            arguments.one_of("mode", mode, get_args(Mode))
        arguments.one_of("kind", kind, get_args(Kind))
        arguments.bias(self.bias, self.filters)
        self.mode = mode or ("full" if padding is None else None)
        self._padding: Any = None
        if padding is not None:
            self._padding = arguments.sides(padding, "before", "behind")
        self.kind, self.groups = kind, groups
        self._stride = arguments.whole("stride", stride)
        self._dilation = arguments.whole("dilation", dilation)

    @classmethod
    def of(cls, module: Any, *, source: Source, max_error: float | None = None) -> Self:
        """Return a layer for the place of a ``torch.nn.Conv1d``, with its own parameters and
        parametrisations. Raises WrongArgument if the module, its class or its hooks may compute
        something that the operator does not."""
        torch_replaced.check(module, torch.nn.Conv1d)
        require(module, padding_mode="zeros")
        if module.groups not in (1, module.in_channels):
            raise WrongArgument(
                f"{module} has {module.groups} groups, and the operator takes 1, or as many as "
                "channels"
            )
        weight, bias = torch_replaced.tensors_of(module)
        made = cls(
            weight,
            bias,
            source=source,
            padding=conv1d_padding(module, weight.shape[-1]),
            kind="correlate",
            stride=module.stride[0],
            dilation=module.dilation[0],
            groups=module.groups,
            max_error=max_error,
        )
        made._is_same = module.padding == "same"
        torch_replaced.take_over(module, made)
        return made

    def make_causal(self, lengths: Collection[int] = ()) -> bool:
        """Compute only as many outputs as there are samples, if the other outputs are exactly those
        that the zeros behind the input add. Return whether this is so. If ``lengths`` are given, do
        so only for inputs of these lengths."""
        zeros = (self.taps - 1) * self._dilation
        if self._padding != (zeros, zeros) or self._stride != 1 or self._is_same:
            return False
        names = ("mode", "_padding", "_causal_lengths")
        self.whole = {name: getattr(self, name) for name in names}
        self.mode, self._padding, self._causal_lengths = "causal", None, frozenset(lengths)
        return True

    def _form(self, x: Any) -> tuple[Mode | None, tuple[int, int] | None]:
        """Return the mode and the padding for that input, one of which is None."""
        at = self._causal_lengths
        if at and not any(x.shape[-1] == each for each in at):  # a graph's number has no hash
            return self.whole["mode"], self.whole["_padding"]
        return self.mode, self._padding

    def extra_repr(self) -> str:
        where = f"mode={self.mode}" if self._padding is None else f"padding={self._padding}"
        channels = f"{self.channels} to {self.filters} channels, groups={self.groups}, "
        one = (self.channels, self.filters) == (1, 1)
        parts = f"{'' if one else channels}{self.taps} taps, {where}, kind={self.kind}"
        return parts + self._extra

    def convolved(self, x: Any, weight: Any, bias: Any) -> Any:
        kernels = self._kernels(weight)
        bias = None if bias is None else bias.reshape(-1)
        ends = self._ends_for(x, kernels.shape[-1])
        y = convolutions.conv1d(x, kernels, bias, self._stride, ends, self._dilation, self.groups)
        return y[..., : x.shape[-1]] if self._is_cut(x) else y

    def differentiated(
        self, g: Any, x: Any, weight: Any, wanted: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        kernels = self._kernels(weight)
        ends = self._ends_for(x, kernels.shape[-1])
        if self._is_cut(x):
            whole = x.shape[-1] + sum(ends) - (kernels.shape[-1] - 1) * self._dilation
            g = torch.nn.functional.pad(g, (0, whole - g.shape[-1]))
        dx, dw = convolutions.gradients(
            g, x, kernels, self._stride, ends, self._dilation, self.groups, wanted
        )
        if dw is not None:
            dw = (dw.flip(-1) if self.kind == "convolve" else dw).reshape(weight.shape)
        return dx, dw

    def _kernels(self, weight: Any) -> Any:
        """Return the weight as PyTorch's ``conv1d`` takes it. It may have another shape than the
        one that the layer was made with."""
        kernels = weight if weight.ndim == 3 else weight.reshape(1, 1, -1)
        return kernels.flip(-1) if self.kind == "convolve" else kernels

    def _is_cut(self, x: Any) -> bool:
        """Return whether the output is cut off after as many values as the input has samples."""
        return self._form(x)[0] == "causal" and self._stride == 1

    def _ends_for(self, x: Any, taps: int) -> tuple[int, int]:
        """Return the zeros before and behind that input. Some outputs may be cut off later."""
        zeros = (taps - 1) * self._dilation
        if self._is_same:
            return halved(zeros)
        if self._is_cut(x):  # zeros on only one side would need a copy of the input
            both: tuple[int, int] = self.whole.get("_padding", (zeros, zeros))
            return both
        mode, padding = self._form(x)
        if mode is None:
            return padding or (0, 0)
        return padding_of(mode, x.shape[-1], zeros + 1, self.kind)

    def _fields(self, x: Any) -> dict[str, Any] | str:
        channels = x.shape[-2] if x.ndim > 1 else 1
        if not (x.ndim in (2, 3) or (x.ndim == 1 and self.filters == 1)) or (
            channels != self.channels
        ):
            return f"the input has shape {tuple(x.shape)}, not (B, {self.channels}, M)"
        return self._fields_of(x, "NCW" if x.is_contiguous() else "NWC")

    def _fields_of(self, x: Any, layout: str) -> dict[str, Any]:
        mode, padding = self._form(x)
        return {
            "B": x.shape[0] if x.ndim == 3 else 1,
            "C": self.channels,
            "M": x.shape[-1],
            "F": self.filters,
            "N": self.taps,
            "mode": mode,
            "padding": padding,
            "kind": self.kind,
            "groups": self.groups,
            "stride": self._stride,
            "dilation": self._dilation,
            "layout": layout,
        }

    @staticmethod
    def is_dense(x: Any) -> bool:
        return bool(x.is_contiguous() or (x.ndim == 3 and x.mT.is_contiguous()))

    @staticmethod
    def in_layout_of(y: Any, x: Any) -> Any:
        # in a part of a tensor, too, either the channels or the samples lie beside each other
        channels_last = not x.is_contiguous() and x.ndim == 3 and x.stride(1) == 1 < x.shape[1]
        return y.mT.contiguous().mT if channels_last else y.contiguous()

    def _shape_of_output(self, x: Any, output: Argument) -> tuple[int, ...]:
        return (x.shape[0], self.filters, output.shape[-1])[3 - x.ndim :]

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (self.filters, 1) if self.filters > 1 else (1,)


class DepthwiseConv2d(Tuned):
    """PyTorch's ``conv2d`` of each channel by itself, by tuned kernels: see :class:`Tuned`.

    ``weight`` is (C * multiplier, 1, KH, KW) and ``bias`` (C * multiplier,). The input is
    (B, C, H, W), maybe with its channels last in memory, or (C, H, W). ``channels`` is C, by
    default the weight's first dimension. ``padding`` is the zeros (top, left, bottom, right), by
    default half the kernel. With "same" the output of any input is ceil(H / stride) by
    ceil(W / stride). ``stride`` is 1 to 4 on both axes. Raises WrongArgument."""

    operator = "depthwise_conv2d"
    AXES = 2
    ORDERS: ClassVar = {"NHWC": ((0, 2, 3, 1), (0, 3, 1, 2))}

    def __init__(
        self,
        weight: Any,
        bias: Any = None,
        *,
        source: Source,
        stride: Literal[1, 2, 3, 4] = 1,
        padding: tuple[int, int, int, int] | Literal["same"] | None = None,
        dilation: int = 1,
        channels: int | None = None,
        activation: Activation = "none",
        max_error: float | None = None,
    ) -> None:
        super().__init__(weight, bias, source, max_error, activation)
        shape = tuple(self.weight.shape)
        if channels is not None:
            channels = arguments.whole("channels", channels)
        if len(shape) != 4 or shape[1] != 1 or shape[0] % (channels or shape[0]):
            of = "C" if channels is None else f"a multiple of {channels}"
            raise WrongArgument(f"the weight must have shape ({of}, 1, KH, KW), but has {shape}")
        self._stride = arguments.whole("stride", stride)
        if self._stride not in STRIDES:
            raise WrongArgument(f"stride is {stride}, and the operator takes 1 to {STRIDES[-1]}")
        arguments.bias(self.bias, shape[0])
        self._dilation = arguments.whole("dilation", dilation)
        self.channels = channels or shape[0]
        self.multiplier = shape[0] // self.channels
        self.size: tuple[int, int] = shape[2:]
        height, width = self.size
        if padding is None:
            padding = (height // 2, width // 2, height // 2, width // 2)
        same = padding == "same"
        self._padding: Any = (
            padding if same else arguments.sides(padding, "top", "left", "bottom", "right")
        )

    @classmethod
    def of(cls, module: Any, *, source: Source, max_error: float | None = None) -> Self:
        """Return a layer for the place of a ``torch.nn.Conv2d``, or of timm's Conv2dSame, which
        pads by the input's size. The layer has its parameters and parametrisations. Raises
        WrongArgument if the module, its class or its hooks may compute something else."""
        torch_replaced.check(module, torch.nn.Conv2d, SAME)
        padding = conv2d_padding(module)
        if torch_replaced.kind_of(module).__name__ == SAME:
            require(module, padding=(0, 0))  # it pads the input itself, before the convolution
            padding = "same"
        stride, dilation = module.stride[0], module.dilation[0]
        require(
            module,
            groups=module.in_channels,
            stride=(stride, stride),
            dilation=(dilation, dilation),
            padding_mode="zeros",
        )
        made = cls(
            *torch_replaced.tensors_of(module),
            source=source,
            stride=stride,
            padding=padding,
            dilation=dilation,
            channels=module.in_channels,
            max_error=max_error,
        )
        torch_replaced.take_over(module, made)
        return made

    def extra_repr(self) -> str:
        size = "x".join(map(str, self.size))
        return f"{self.channels} channels, kernel {size}, stride={self._stride}{self._extra}"

    def convolved(self, x: Any, weight: Any, bias: Any) -> Any:
        sides = self._sides_for(x, weight.shape[2:])
        return convolutions.depthwise_conv2d(
            x, weight, bias, self._stride, sides, self._dilation, self.channels
        )

    def differentiated(
        self, g: Any, x: Any, weight: Any, wanted: tuple[bool, bool]
    ) -> tuple[Any, Any]:
        sides = self._sides_for(x, weight.shape[2:])
        return convolutions.gradients(
            g, x, weight, self._stride, sides, self._dilation, self.channels, wanted
        )

    def _sides_for(self, x: Any, size: Sequence[int]) -> Sides:
        """Return the zeros at the top, left, bottom and right of that input for a kernel's size."""
        if self._padding != "same":
            given: Sides = self._padding
            return given
        return same_padding(x.shape[-2:], size, self._stride, self._dilation)

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
            "stride": self._stride,
            "padding": self._sides_for(x, self.size),
            "dilation": self._dilation,
            "multiplier": self.multiplier,
            "layout": "NCHW" if x.is_contiguous() else "NHWC",
        }

    @staticmethod
    def is_dense(x: Any) -> bool:
        return bool(
            x.is_contiguous()
            or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
        )

    @staticmethod
    def in_layout_of(y: Any, x: Any) -> Any:
        if x.is_contiguous() or not _last(x):
            return y.contiguous()
        order, back = DepthwiseConv2d.ORDERS["NHWC"]
        turned = y.permute(order)  # torch.vmap knows no memory format
        return y if turned.is_contiguous() else turned.contiguous().permute(back)

    def _shape_of_output(self, x: Any, output: Argument) -> tuple[int, ...]:
        return output.shape[4 - x.ndim :]

    @property
    def _shape_of_bias(self) -> tuple[int, ...]:
        return (self.channels * self.multiplier, 1, 1)


def _last(x: Any) -> bool:
    """Return whether the channels of an image, or of a part of one, lie beside each other."""
    return bool(x.ndim == 4 and x.shape[1] > 1 and x.stride(1) == 1)
