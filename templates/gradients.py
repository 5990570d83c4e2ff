"""Gradients of a convolution: workloads that say which of them, and what they take and give."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from templates.argument import Argument
from templates.epilogue import WithEpilogue
from templates.workload import Later

Direction = Literal["forward", "backward_input", "backward_weight", "backward"]


class WithGradients(WithEpilogue):
    """The shape's fields describe the forward convolution in every direction.

    - ``backward_input``: (output_gradient, weight[, sums]) -> the gradient of the input, of the
      input's shape
    - ``backward_weight``: (input, output_gradient[, sums]) -> the gradient of the weight, of the
      weight's shape; with ``bias`` it is in one dimension, and behind it are the bias's gradients,
      a number for each output channel
    - ``backward``: (input, output_gradient, weight[, bias]) -> (the gradient of the input, that of
      the weight[, that of the bias]), three outputs of one program, which makes the sums itself;
      the bias is given if there is an activation

    With an activation, ``output_gradient`` is that of the activation's result. It is multiplied by
    the activation's derivative at ``sums``, the forward's value before the activation, which have
    the output's shape and dtype. For relu and relu6 the forward's output may be given in their
    place: it is on the same side of 0 and of 6. A residual's gradient is that of the sums, so no
    gradient's program depends on whether there is one; nor does that of the input on the bias.
    """

    direction: Annotated[Direction, Later()] = Field(
        "forward",
        description="forward: the convolution; backward_input: the gradient of its input; "
        "backward_weight: the gradient of its weight, and of its bias if it has one; backward: all "
        "of these at once, of channels apart",
    )

    @model_validator(mode="after")
    def _nothing_unused(self) -> WithGradients:
        recomputed = self.direction == "backward" and self.activation != "none"
        if not self.is_forward and not recomputed:
            self._set(residual=False)
        if self.direction == "backward_input":
            self._set(bias=False)
        return self

    @property
    def is_forward(self) -> bool:
        return self.direction == "forward"

    @property
    def is_flat(self) -> bool:
        """Whether its output is the gradients of weight and bias in one dimension."""
        return self.direction == "backward_weight" and self.bias

    @property
    def is_plain(self) -> bool:
        return self.is_forward and super().is_plain

    @property
    @abstractmethod
    def out_channels(self) -> int: ...

    @property
    def flops(self) -> int:
        """Two for each multiply-add of the direct form. A bias's gradients are sums without
        products, and are not counted."""
        biases = self.out_channels if self.bias and not self.is_forward else 0
        return 2 * self.taps * (self.output.elements - biases)

    def in_direction(self, x: Argument, weight: Argument, y: Argument) -> tuple[Argument, ...]:
        """The arguments, of the forward convolution's input, weight and output."""
        if self.is_forward:
            return (x, weight, *self.added(y, self.out_channels), y)
        gradient = replace(y, name="output_gradient", role="gradient")
        if self.direction == "backward":
            return self._in_one(x, gradient, weight)
        sums = replace(y, name="sums", role="sums")
        before = (sums,) if self.activation != "none" else ()
        if self.direction == "backward_input":
            return (gradient, weight, *before, replace(x, name="output", role="output"))
        flat = (weight.elements + self.out_channels,)
        output = (
            Argument("output", flat, self.dtype, "output")
            if self.bias
            else replace(weight, name="output", role="output")
        )
        return (x, gradient, *before, output)

    def _in_one(self, x: Argument, gradient: Argument, weight: Argument) -> tuple[Argument, ...]:
        bias = Argument("bias", (self.out_channels,), self.dtype, "bias")
        recomputed = self.bias and self.activation != "none"
        outputs = (x, weight, bias) if self.bias else (x, weight)
        return (
            *(x, gradient, weight, *([bias] if recomputed else [])),
            *(replace(each, name=f"{each.name}_gradient", role="output") for each in outputs),
        )
