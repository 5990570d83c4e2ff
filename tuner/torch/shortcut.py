"""A call like one that a kernel has computed, recognised in one step.

What a module asks before it calls a kernel takes some ten microseconds, and more in a model whose
other operators push it out of the processor's caches. PyTorch has a native check of tensors for the
graphs that it compiles, which answers most of that at once. What has passed it needs no description
any more: a kernel for a CPU takes the addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._dynamo import guards

from tuner.library.load import Library
from tuner.library.torch_transforms import active

Order = tuple[int, ...]
_empty: Any = vars(guards)["_empty_strided_cpu"]
"""How compiled graphs allocate: shape, strides and dtype of a tensor on the CPU."""


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
        # class, dtype, device, shape, strides, and all that PyTorch dispatches by: autocast,
        # transforms, subclasses, negated views
        sizes: Any = [list(each.shape) for each in tensors]
        strides: Any = [list(each.stride()) for each in tensors]
        self._alike = guards.TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        self._has_bias = len(tensors) > 2
        self._orders, self._compute = orders, library.of_tensors
        self._at = library.at
        self._like = tuple(output.shape), output.stride(), output.dtype
        self.reason: str = library.manifest["template"]

    def __call__(self, x: Any, weight: Any, bias: Any) -> Any:
        """The output; None if the call is another one."""
        if torch.is_grad_enabled() or (bias is not None) is not self._has_bias:
            return None
        given = (weight, bias) if self._has_bias else (weight,)
        if not self._alike(x, *given) or active(torch):
            return None
        if self._at is not None:
            y = _empty(*self._like)
            if self._has_bias:
                self._at(x.data_ptr(), weight.data_ptr(), bias.data_ptr(), y.data_ptr())
            else:
                self._at(x.data_ptr(), weight.data_ptr(), y.data_ptr())
            return y
        if self._orders is None:
            return self._compute(x, *given)
        taken, given_back = self._orders
        return self._compute(x.permute(taken), *given).permute(given_back)
