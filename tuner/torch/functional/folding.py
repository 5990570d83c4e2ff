"""Batch norms folded into the weight and bias of the convolution before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.optim.optimizer import register_optimizer_step_post_hook

_steps = 0
"""Steps of all optimisers in this process. A fused one's writes change no tensor's version."""


def _count_step(*_: Any) -> None:
    global _steps  # noqa: PLW0603  # of the process, as PyTorch's hook is
    _steps += 1


register_optimizer_step_post_hook(_count_step)


class BatchNorm:
    """A batch norm that can be folded into the convolution before it.

    The module keeps its place in the model, and its parameters their names.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module: Any = module
        self._folded: tuple[tuple[Any, ...], Any, Any] | None = None
        # the tensors that were folded, held so that no other can be allocated at their addresses
        self._of: tuple[Any, ...] = ()

    @property
    def training(self) -> bool:
        """Whether it normalises by the batch's own mean and variance, so that it can't be folded.

        It does in training mode, or if its running mean and variance are gone.
        """
        return bool(self.module.training) or self.tensors[2] is None

    @property
    def tensors(self) -> list[torch.Tensor | None]:
        """Its weight, bias, running mean and running variance; the first two may be None."""
        module = self.module
        own, kept = module._parameters, module._buffers
        if "weight" in own and "bias" in own and "running_mean" in kept and "running_var" in kept:
            return [own["weight"], own["bias"], kept["running_mean"], kept["running_var"]]
        # one is parametrised or a plain attribute; attributes of a module take long
        return [module.weight, module.bias, module.running_mean, module.running_var]

    def has(self, tensors: Sequence[torch.Tensor | None]) -> bool:
        """Return whether these are its own tensors, as they are now, and not other values that a
        graph computes with in their place."""
        return all(
            one is other or (one is not None and other is not None and _same_memory(one, other))
            for one, other in zip(tensors, self.tensors, strict=True)
        )

    @property
    def needs_grad(self) -> bool:
        """Whether its weight or bias requires grad."""
        return any(each.requires_grad for each in self.tensors if each is not None)

    def normalised(
        self, y: torch.Tensor, tensors: Sequence[torch.Tensor | None] = ()
    ) -> torch.Tensor:
        """Return the norm of ``y``, by these ``tensors`` if they are given, as :attr:`tensors`
        orders them.

        Otherwise by the class: the module's own ``forward`` may be
        :class:`~tuner.torch.in_place.PassThrough`, which returns its input."""
        if tensors:
            weight, bias, mean, variance = tensors
            return torch.nn.functional.batch_norm(
                y, mean, variance, weight, bias, eps=self.module.eps
            )
        taken: torch.Tensor = torch.nn.modules.batchnorm._BatchNorm.forward(self.module, y)
        return taken

    def folded(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        """Return the weight and bias of one convolution that includes this norm.

        They are kept until a tensor of the convolution or of the norm is written to or moves.
        """
        parts = (weight, bias, *self.tensors)
        # training changes the running mean and variance without their versions, but counts batches
        counted = *parts, self.module._buffers.get("num_batches_tracked")
        tensors = [each for each in counted if each is not None]
        if any(each.is_inference() for each in tensors):  # nothing tells that they were written to
            return self._fold(*parts)
        versions = [(each.data_ptr(), each._version) for each in tensors]
        state = (self.module.eps, _steps, *versions)
        if self._folded is None or self._folded[0] != state:
            self._folded, self._of = (state, *self._fold(*parts)), parts
        return self._folded[1:]

    def _fold(self, weight: Any, *others: Any) -> tuple[Any, Any]:
        """Return the weight and bias from those of the convolution and from :attr:`tensors`."""
        values: list[Any] = [
            None if each is None else each.detach().float() for each in (weight, *others)
        ]
        w, b, gain, shift, mean, variance = values
        made = fuse_conv_bn_weights(w, b, mean, variance, self.module.eps, gain, shift)
        folded, offset = (each.detach().to(weight.dtype).contiguous() for each in made)
        return folded, offset

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self.module, "_folded": None, "_of": ()}


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.device == other.device
