"""A call like one that a kernel has computed, recognised in one step.

What a module asks before it calls a kernel takes some ten microseconds, and more in a model whose
other operators push it out of the processor's caches. PyTorch has a native check of tensors for the
graphs that it compiles, which answers most of that at once. What has passed it needs no description
any more: a kernel takes the addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._dynamo import guards

from tuner.library.load import Library
from tuner.library.torch_transforms import active

Order = tuple[int, ...]
EMPTY: dict[str, Any] = {kind: vars(guards)[f"_empty_strided_{kind}"] for kind in ("cpu", "cuda")}
"""How compiled graphs allocate on each kind of device: by shape, strides and dtype."""
_current_gpu: Any = getattr(torch._C, "_cuda_getDevice", None)  # PyTorch may know no CUDA


class Alike:
    """Recognises tensors that PyTorch dispatches as it does those of an earlier call.

    They agree in class, dtype, device, shape, strides, and in all that PyTorch dispatches by:
    autocast, transforms, subclasses, negated views. Their GPU is the current one."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        sizes: Any = [list(each.shape) for each in tensors]
        strides: Any = [list(each.stride()) for each in tensors]
        self._check = guards.TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        self.gpu = tensors[0].device.index if tensors[0].is_cuda else None

    def __call__(self, *tensors: torch.Tensor) -> bool:
        """Return whether a kernel may be called on them, which records nothing."""
        here = self.gpu is None or _current_gpu() == self.gpu
        return here and self._check(*tensors) and not active(torch)


class Shortcut:
    """For calls of a library on input, weight and perhaps bias, which leave it nothing else to do.
    ``orders`` are those of the axes in which it takes the input and gives the output back."""

    def __init__(
        self,
        tensors: Sequence[Any],
        output: Any,
        library: Library,
        orders: tuple[Order, Order] | None,
    ) -> None:
        """After a call on these tensors that gave that output, while no gradients are recorded."""
        self._alike = Alike(tensors)
        self._has_bias = len(tensors) > 2
        self._orders, self._compute = orders, library.of_tensors
        self._at, self._empty = library.by_address(self._alike.gpu), EMPTY[library.kind]
        self._like = tuple(output.shape), output.stride(), output.dtype
        self.reason: str = library.manifest["template"]

    def __call__(self, x: Any, weight: Any, bias: Any) -> Any:
        """The output; None if the call is another one."""
        if torch.is_grad_enabled() or (bias is not None) is not self._has_bias:
            return None
        given = (weight, bias) if self._has_bias else (weight,)
        if not self._alike(x, *given):
            return None
        if self._at is not None:
            y = self._empty(*self._like)
            if self._has_bias:
                self._at(x.data_ptr(), weight.data_ptr(), bias.data_ptr(), y.data_ptr())
            else:
                self._at(x.data_ptr(), weight.data_ptr(), y.data_ptr())
            return y
        if self._orders is None:
            return self._compute(x, *given)
        taken, given_back = self._orders
        return self._compute(x.permute(taken), *given).permute(given_back)
