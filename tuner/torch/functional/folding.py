"""Batch norm taken into the convolution before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.optim.optimizer import register_optimizer_step_post_hook

_steps = 0
"""Of optimisers in this process: what the fused ones write shows in no version of a tensor."""


def _count_step(*_: Any) -> None:
    global _steps  # noqa: PLW0603  # of the process, as PyTorch's hook is
    _steps += 1


register_optimizer_step_post_hook(_count_step)


class BatchNorm:
    """A batch norm whose place in a model is kept: its parameters stay there, under their names."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module: Any = module
        self._folded: tuple[tuple[Any, ...], Any, Any] | None = None
        # what was folded, held: another tensor could else come to lie where one was freed
        self._of: tuple[Any, ...] = ()

    @property
    def training(self) -> bool:
        """Whether it normalises by what comes, which nothing can be folded with: it has no running
        sums, perhaps no more."""
        return bool(self.module.training) or self.module._buffers["running_mean"] is None

    @property
    def needs_grad(self) -> bool:
        return any(
            each.requires_grad for each in self.module._parameters.values() if each is not None
        )

    def normalised(self, y: torch.Tensor) -> torch.Tensor:
        """The module's output by its class, as its own ``forward`` passes on what comes."""
        taken: torch.Tensor = torch.nn.modules.batchnorm._BatchNorm.forward(self.module, y)
        return taken

    def folded(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        """Weight and bias of the convolution with this norm behind it, made anew if one of them, or
        of the norm's own, has changed or moved since."""
        own, kept = self.module._parameters, self.module._buffers
        parts = (
            weight, bias, own["weight"], own["bias"], kept["running_mean"], kept["running_var"],
        )  # fmt: skip
        # what training writes to the running sums does not show in their versions, but it counts
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
    """What changes if a tensor is written to, moved or replaced while the one before is held."""
    try:
        return [(each.data_ptr(), each._version) for each in tensors if each is not None]
    except RuntimeError:  # made in inference mode, they have no versions
        return [(each.data_ptr(), 0) for each in tensors if each is not None]
