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
        return bool(self.module.training) or self.module._buffers["running_mean"] is None

    @property
    def needs_grad(self) -> bool:
        """Whether its weight or bias requires grad."""
        return any(
            each.requires_grad for each in self.module._parameters.values() if each is not None
        )

    def normalised(self, y: torch.Tensor) -> torch.Tensor:
        """Return the norm of ``y``, by the class: the module's own ``forward`` may be
        :class:`~tuner.torch.in_place.PassThrough`, which returns its input."""
        taken: torch.Tensor = torch.nn.modules.batchnorm._BatchNorm.forward(self.module, y)
        return taken

    def folded(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        """Return the weight and bias of one convolution that includes this norm.

        They are kept until a tensor of the convolution or of the norm is written to or moves.
        """
        own, kept = self.module._parameters, self.module._buffers
        parts = (
            weight, bias, own["weight"], own["bias"], kept["running_mean"], kept["running_var"],
        )  # fmt: skip
        # training changes the running mean and variance without their versions, but counts batches
        counted = *parts, kept.get("num_batches_tracked")
        state = (self.module.eps, _steps, *_state(counted))
        if self._folded is None or self._folded[0] != state:
            values: list[Any] = [None if each is None else each.detach().float() for each in parts]
            w, b, gain, shift, mean, variance = values
            made = fuse_conv_bn_weights(w, b, mean, variance, self.module.eps, gain, shift)
            taken = [each.detach().to(weight.dtype).contiguous() for each in made]
            self._folded, self._of = (state, taken[0], taken[1]), parts
        return self._folded[1:]

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self.module, "_folded": None, "_of": ()}


def _state(tensors: Sequence[Any]) -> list[tuple[int, int]]:
    """Return what differs after a tensor is written to, moved, or replaced while it is held."""
    try:
        return [(each.data_ptr(), each._version) for each in tensors if each is not None]
    except RuntimeError:  # tensors that were made in inference mode have no versions
        return [(each.data_ptr(), 0) for each in tensors if each is not None]
