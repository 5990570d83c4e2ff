"""Shortcuts: recognise a call like an earlier one in one step, and call its kernel.

The checks before a module calls a kernel take some ten microseconds, and more in a model whose
other operators push them out of the processor's caches. PyTorch has a native check of tensors,
meant for the graphs that it compiles, which makes most of these checks at once. Tensors that have
passed it need not be described to the kernel, which takes their addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch._C._dynamo import guards

from tuner.library.load import Library
from tuner.library.torch_transforms import is_recording, records_gradients
from tuner.torch.functional.folding import BatchNorm, Fold
from tuner.torch.pytorch_only import not_none

AxisOrder = tuple[int, ...]
EMPTY_STRIDED: dict[str, Any] = {
    kind: vars(guards)[f"_empty_strided_{kind}"] for kind in ("cpu", "cuda")
}
"""For each kind of device: the function by which compiled graphs allocate a tensor of a shape,
strides and a dtype."""
_current_gpu: Any = getattr(torch._C, "_cuda_getDevice", None)  # PyTorch may know no CUDA


class DispatchGuard:
    """A check whether PyTorch dispatches tensors as it dispatched those of an earlier call.

    It compares class, dtype, device, shape and strides, and everything else by which PyTorch
    dispatches: autocast, transforms, subclasses, negated views. A GPU must be the current one.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        sizes: Any = [list(each.shape) for each in tensors]
        strides: Any = [list(each.stride()) for each in tensors]
        self._check = guards.TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        self._count = len(tensors)
        self.gpu = tensors[0].device.index if tensors[0].is_cuda else None

    def __call__(self, *tensors: torch.Tensor) -> bool:
        """Return whether the tensors are like the earlier ones, and nothing would record a call on
        them."""
        here = self.gpu is None or _current_gpu() == self.gpu
        alike = here and len(tensors) == self._count and self._check(*tensors)
        return alike and not is_recording(torch)


class Shortcut:
    """A shortcut for calls in which a library does all the work, on input, weight and perhaps bias.

    ``orders`` are the axes with which ``permute`` turns the input into the library's layout, and
    its output back; None if the library takes and gives the tensors as they are.
    """

    @classmethod
    def of(
        cls,
        library: Library,
        activation: str,
        orders: Mapping[str | None, tuple[AxisOrder, AxisOrder]],
        given: tuple[Any, Any, Any],
        norm: BatchNorm | None,
        output: Any,
    ) -> Self | None:
        """Return a shortcut for calls like the one in which the library gave that output.

        ``given`` are the call's input, weight and bias or None, and ``norm`` is folded into weight
        and bias. ``orders`` are the layer's, by the layout of its input. Return None if the library
        can't do alone what the layer does.
        """
        x, weight, bias = given
        work: Any = library.workload
        first, second = library.arguments[:2]
        has_bias = bias is not None or norm is not None
        if (
            records_gradients(torch)
            or (work.bias, work.activation) != (has_bias, activation)
            or weight.shape != second.shape
        ):
            return None
        order = orders.get(first.layout)
        if order is None and x.shape != first.shape:
            return None
        of_norm = () if norm is None else norm.tensors()
        return cls(not_none(x, weight, bias, *of_norm), bias is not None, output, library, order)

    def __init__(
        self,
        tensors: Sequence[Any],
        has_bias: bool,
        output: Any,
        library: Library,
        orders: tuple[AxisOrder, AxisOrder] | None,
    ) -> None:
        """Remember a call on these tensors that gave that output, while no gradients are recorded.

        ``tensors`` are input, weight, perhaps bias, and those of a norm.
        """
        self._guard = DispatchGuard(tensors)
        self._has_bias = has_bias
        self._fold: Fold | None = None  # of the last call, whose tensors passed the same guard
        self._orders, self._compute = orders, library.of_tensors
        self._by_address = library.by_address(self._guard.gpu)
        self._empty = EMPTY_STRIDED[library.kind]
        self._like = tuple(output.shape), output.stride(), output.dtype
        self.reason: str = library.manifest["template"]

    def __call__(self, x: Any, weight: Any, bias: Any, norm: BatchNorm | None = None) -> Any:
        """Return the output, or None if the call is not like the one remembered."""
        # records_gradients is written out, because a function takes longer to call
        recorded = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        if recorded or (bias is not None) is not self._has_bias:
            return None
        given = (weight, bias) if self._has_bias else (weight,)
        if norm is None:
            if not self._guard(x, *given):
                return None
        elif norm.module.training or not self._guard(x, *given, *not_none(*norm.tensors())):
            return None
        else:
            self._fold = norm.fold(weight, bias, self._fold)
            given = self._fold.values
        if self._by_address is not None:
            y = self._empty(*self._like)
            addresses = [each.data_ptr() for each in given]
            self._by_address(x.data_ptr(), *addresses, y.data_ptr())
            return y
        if self._orders is None:
            return self._compute(x, *given)
        taken, given_back = self._orders
        return self._compute(x.permute(taken), *given).permute(given_back)
