"""Directions of a convolution: which gradients a workload computes, and with which arguments."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from templates.argument import Argument
from templates.epilogue import WithEpilogue
from templates.workload import AddedLater

Direction = Literal["forward", "backward_input", "backward_weight", "backward"]


class WithGradients(WithEpilogue):
    """A workload that computes a convolution or gradients of it, as its ``direction`` says.

    The shape's fields describe the forward convolution in every direction.

    - ``backward_input``: (output_gradient, weight[, sums]) -> the input's gradient, of the input's
      shape
    - ``backward_weight``: (input, output_gradient[, sums]) -> the weight's gradient, of the
      weight's shape; with ``bias`` it is flattened to one dimension and followed by the bias's
      gradient, a number for each output channel
    - ``backward``: (input, output_gradient, weight[, bias]) -> (the input's gradient, the
      weight's[, the bias's]), as separate outputs of one program. It computes the sums itself, and
      takes the bias only if there is an activation.

    With an activation, ``output_gradient`` is the gradient of the activation's result. The program
    multiplies it by the activation's derivative at ``sums``: the forward's values before the
    activation, of the output's shape and dtype. For relu and relu6 the forward's output may be
    passed as ``sums``, because it lies on the same side of 0 and of 6. A residual's gradient equals
    that of the sums, so no program of a gradient depends on whether there is a residual. The
    input's gradient does not depend on the bias either.
    """

    direction: Annotated[Direction, AddedLater()] = Field(
        "forward",
        description="forward: the convolution; backward_input: the gradient of its input; "
        "backward_weight: the gradient of its weight, and of its bias if it has one; backward: all "
        "of these at once, if each channel has its own kernel",
    )

    @model_validator(mode="after")
    def _nothing_unused(self) -> WithGradients:
        """Reset fields that a gradient does not depend on, so that equal programs have one key.

        With an activation, ``backward`` would need the residual to recompute the sums. In that case
        the field stays, so that subclasses can refuse it.
        """
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
        """Return whether the output holds the gradients of weight and bias in one dimension."""
        return self.direction == "backward_weight" and self.bias

    @property
    def is_plain(self) -> bool:
        return self.is_forward and super().is_plain

    @property
    @abstractmethod
    def out_channels(self) -> int: ...

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the direct form, two for each multiply-add.

        A bias's gradient is a sum without products and is not counted.
        """
        biases = self.out_channels if self.bias and not self.is_forward else 0
        return 2 * self.taps * (self.output.elements - biases)

    def in_direction(self, x: Argument, weight: Argument, y: Argument) -> tuple[Argument, ...]:
        """Return the workload's arguments, given the forward's input, weight and output."""
        if self.is_forward:
            return (x, weight, *self.epilogue_arguments(y, self.out_channels), y)
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
        """Return the arguments of direction ``backward``: all gradients from one program."""
        bias = Argument("bias", (self.out_channels,), self.dtype, "bias")
        recomputed = self.bias and self.activation != "none"
        outputs = (x, weight, bias) if self.bias else (x, weight)
        return (
            *(x, gradient, weight, *([bias] if recomputed else [])),
            *(replace(each, name=f"{each.name}_gradient", role="output") for each in outputs),
        )
