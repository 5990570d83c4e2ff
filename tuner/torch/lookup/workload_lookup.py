"""The part of a layer that looks its calls up: it names the workloads that would serve an input,
asks the source for their kernels, and keeps the answers."""

from __future__ import annotations

from abc import abstractmethod
from itertools import product
from typing import Any, ClassVar, Literal, Self

import torch

from templates.argument import Argument
from templates.epilogue import Activation
from tuner.client.source import Source
from tuner.errors import WrongArgument
from tuner.library.load import Library
from tuner.torch.gradients import at_once
from tuner.torch.lookup import bounded
from tuner.torch.lookup.reason_log import ReasonLog
from tuner.torch.lookup.source_lookup import KINDS, Found, look_up

DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}

Purpose = Literal["forward", "sums", "backward_input", "backward_weight", "backward"]
"""The result of a kernel: the output; the sums before its activation, which gradients need once
more; the gradient of the input; the gradient of the weight and, if there is one, of the bias; or
all gradients at once."""


class LookupMixin(torch.nn.Module):
    """A module that asks its source once for each shape, layout and dtype of its input. The first
    of a model's equal modules asks for all of them."""

    operator: ClassVar[str]
    activation: Activation
    bias_in_kernel: bool
    source: Source | None
    max_error: float | None
    weight_shape: tuple[int, ...]
    reason_log: ReasonLog
    _found: dict[Any, Found]

    def found_for(
        self, x: Any, device: Any, residual: bool = False, purpose: Purpose = "forward"
    ) -> Found:
        """Return what computes calls on inputs like ``x`` on ``device``.

        ``x`` may have no data: its shape, layout and dtype count. The source is asked at the first
        call, and its answer is kept. While a CUDA graph is captured it is not asked.
        """
        if self.source is None:
            return Found(
                reason="a module from a file or another process has no source; set its source"
            )
        x = self.as_dense(x)
        key = self._key(x, device, residual, purpose)
        found = self._found.get(key)
        if found is None:
            if x.is_cuda and torch.cuda.is_current_stream_capturing():
                return Found(
                    reason="a CUDA graph is being captured, and this shape was not called before"
                )
            found = self._looked_up(x, device, residual, purpose)
            bounded.put(self._found, key, found)
        return found

    def _key(
        self, x: Any, device: Any, residual: bool, purpose: Purpose = "forward"
    ) -> tuple[Any, ...]:
        return x.shape, x.dtype, device, x.is_contiguous(), self._has_bias, residual, purpose

    def wanted(
        self, x: Any, residual: bool = False, purpose: Purpose = "forward"
    ) -> list[dict[str, Any]] | str:
        """Return the fields of the workloads that would serve ``x``, or why there are none.

        The most complete workload comes first: with bias, residual and activation in the kernel.
        """
        x = self.as_dense(x)
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
        activation = self.activation != "none" and self.activation
        if purpose.startswith("backward"):
            return self._of_gradients(fields, purpose)
        if self._has_bias and not self.bias_in_kernel:
            return [fields]
        several = [fields]
        for name, value in (
            ("bias", self._has_bias),
            ("residual", residual),
            ("activation", purpose == "forward" and activation),
        ):
            if value:
                several.append(several[-1] | {name: value})
        return several[::-1]  # the caller applies what the kernel was tuned without

    def _of_gradients(self, fields: dict[str, Any], purpose: Purpose) -> list[dict[str, Any]] | str:
        if purpose == "backward":
            place = "given" if self.bias_in_kernel else "apart"
            bias_at: Any = place if self._has_bias else None
            return at_once.wanted(self.operator, fields, self.activation, bias_at)
        fields["direction"] = purpose
        bias = purpose == "backward_weight" and self._has_bias and self.bias_in_kernel
        activation = self.activation != "none" and self.activation
        activations = [{"activation": activation}, {}] if activation else [{}]
        biases = [{"bias": True}, {}] if bias else [{}]
        return [fields | one | other for one, other in product(activations, biases)]

    def _looked_up(self, x: Any, device: Any, residual: bool, purpose: Purpose) -> Found:
        wanted = self.wanted(x, residual, purpose)
        if isinstance(wanted, str):
            return Found(reason=wanted)
        source: Any = self.source
        answers = self.reason_log.answers
        asked = source, self.operator, device, *(tuple(each.items()) for each in wanted)
        found = answers.get(asked)
        if found is None:
            found = look_up(source, self.operator, wanted, device)
            bounded.put(answers, asked, found)
        return found

    def _why_unfit(self, x: Any, weight: Any) -> str | None:
        """Return why no library could take these tensors, whatever is tuned, or None."""
        if x.dtype != weight.dtype or x.dtype not in DTYPES:
            known = ", ".join(DTYPES.values())
            return f"input is {x.dtype}, weight {weight.dtype}; both must be one of {known}"
        if weight.shape != self.weight_shape:
            return self._other_shape(weight)
        device = x.device
        if device != weight.device or device.type not in KINDS:
            return f"the input is on {device} and the weight on {weight.device}"
        dense = x.layout == torch.strided and self.is_dense(x) and weight.is_contiguous()
        return None if dense else "input and weight must be contiguous; call .contiguous() on them"

    def _weight_view(self, weight: Any, argument: Argument) -> Any:
        """Return a view of the weight as a library takes it. Raises WrongArgument."""
        if weight.shape == argument.shape:
            return weight
        if weight.shape != self.weight_shape:
            raise WrongArgument(self._other_shape(weight))
        return weight.view(argument.shape)

    def _other_shape(self, weight: Any) -> str:
        return (
            f"the weight has shape {tuple(weight.shape)}, and the layer was made for "
            f"{self.weight_shape}"
        )

    @staticmethod
    @abstractmethod
    def is_dense(x: Any) -> bool:
        """Return whether a library could take ``x`` as it lies in memory, without a copy."""

    @staticmethod
    @abstractmethod
    def in_layout_of(y: Any, x: Any) -> Any:
        """Return ``y`` in dense memory, with its channels last if ``x`` has them last."""

    def as_dense(self, x: Any) -> Any:
        """Return ``x`` in dense memory.

        Only a part of a tensor, such as some of its channels, is copied. PyTorch's own convolution
        would copy it too, in the same layout.
        """
        dense = x.layout != torch.strided or self.is_dense(x)
        return x if dense else self.in_layout_of(x, x)

    def _current(self, name: str) -> Any:
        """Return a parameter or, if it is parametrised, the value that it has at the moment."""
        own = self._parameters
        return own[name] if name in own else getattr(self, name)

    def gradient_library(self, x: Any, weight: Any, purpose: Purpose) -> Library | None:
        """Return the tuned kernel for that purpose, or None."""
        if self._why_unfit(x, weight) is not None:
            return None
        return self.found_for(x, x.device, False, purpose).library

    def _library(self, x: Any, residual: Any) -> Library | str:
        found = self.found_for(x, x.device, residual is not None)
        return found.library or found.reason

    @property
    def _has_bias(self) -> bool:
        return self.norm is not None or self._current("bias") is not None

    @abstractmethod
    def _fields(self, x: Any) -> dict[str, Any] | str:
        """Return the workload fields that follow from the shape and layout of ``x``, or why not."""


class SharedSource:
    """A source in a module's state: copies of the module share it, files have none."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return SharedSource, ()
