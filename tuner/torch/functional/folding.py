"""Batch norms folded into the weight and bias of the convolution before them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.optim.optimizer import register_optimizer_step_post_hook

NORM_NEEDS_GRAD = (
    "grad is needed, and its batch norm was taken into the kernel, which has no gradients; call it "
    "under torch.no_grad(), or call optimize_ with mode='training'"
)
NORM_REPLACED = (
    "its batch norm was taken into the kernel, and the graph computes with other values of the norm"
)

_steps = 0
"""Steps of all optimisers in this process. A fused one's writes change no tensor's version."""


def _count_step(*_: Any) -> None:
    global _steps  # noqa: PLW0603  # of the process, as PyTorch's hook is
    _steps += 1


register_optimizer_step_post_hook(_count_step)
_keeping = Lock()
"""Held while folded tensors are made or written: a CUDA graph reads those of the first thread."""


class BatchNorm:
    """A batch norm that can be folded into the convolution before it.

    The module keeps its place in the model, and its parameters their names.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module: Any = module
        self._kept: list[_Kept] = []

    # methods, and attributes read one by one: graphs of torch.compile compare less in each call

    def is_training(self) -> bool:
        """Return whether it normalises by the batch's own mean and variance, so that it can't be
        folded.

        It does in training mode, or if its running mean and variance are gone.
        """
        return bool(self.module.training) or self.tensors()[2] is None

    def tensors(self) -> list[torch.Tensor | None]:
        """Return its weight, bias, running mean and running variance; the first two may be None."""
        module = self.module
        try:
            own, kept = module._parameters, module._buffers
            return [own["weight"], own["bias"], kept["running_mean"], kept["running_var"]]
        except KeyError:  # one is parametrised or a plain attribute, which takes longer to read
            return [module.weight, module.bias, module.running_mean, module.running_var]

    def has(self, tensors: Sequence[torch.Tensor | None]) -> bool:
        """Return whether these are its own tensors, as they are now, and not other values that a
        graph computes with in their place."""
        return all(
            one is other or (one is not None and other is not None and _same_memory(one, other))
            for one, other in zip(tensors, self.tensors(), strict=True)
        )

    @property
    def needs_grad(self) -> bool:
        """Whether its weight or bias requires grad."""
        return any(each.requires_grad for each in self.tensors() if each is not None)

    def why_unfoldable(self) -> str | None:
        """Return why it can't be folded at the moment, or None."""
        if self.needs_grad and torch.is_grad_enabled():
            return NORM_NEEDS_GRAD
        if self.is_training():
            return "its batch norm normalises by what comes, as in training mode; call eval()"
        return None

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

        If the weights and biases are parameters, these are kept while the memory of all that was
        folded is in use. If something is written to that memory, the next call writes the new
        values into the same two tensors, so that a CUDA graph that reads them has the new values,
        too.
        """
        parts = (weight, bias, *self.tensors())
        # training changes the running mean and variance without their versions, but counts batches
        counted = *parts, self.module._buffers.get("num_batches_tracked")
        tensors = [each for each in counted if each is not None]
        try:
            seen = [(each._version, each.data_ptr(), each.stride(), each.dtype) for each in tensors]
        except RuntimeError:  # one was made in inference mode: nothing tells that it was written to
            return self._fold(*parts)
        state = self.module.eps, _steps, seen
        for kept in self._kept:
            if kept.state == state and kept.is_in_use():
                return kept.folded
        if not all(each is None or _is_lasting(each) for each in parts[:4]):
            return self._fold(*parts)
        if weight.is_cuda and torch.cuda.is_current_stream_capturing():
            return self._fold(*parts)  # so the graph folds anew in each replay
        with _keeping:
            places = [place for _, *place in seen]
            self._kept = [each for each in self._kept if each.is_in_use()]
            folded = self._fold(*parts)
            for kept in self._kept:
                if kept.places == places:
                    break
            else:
                kept = _Kept(tensors, places, folded)
                self._kept.append(kept)
            kept.write(folded, state)
        return kept.folded

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
        return {"module": self.module, "_kept": []}


class _Kept:
    """The weight and bias folded from ``tensors``, which lie in memory as ``places`` say."""

    def __init__(
        self, tensors: Sequence[torch.Tensor], places: list[Any], like: tuple[Any, Any]
    ) -> None:
        self.places = places
        self._storages = [StorageWeakRef(each.untyped_storage()) for each in tensors]
        self.state: tuple[Any, ...] = ()
        # in a thread of its own, because this one may be in inference mode, or warm up a CUDA graph
        # of torch.compile: what it allocates then must not outlive that graph's call
        with ThreadPoolExecutor(1) as thread:
            weight, bias = thread.map(torch.empty_like, like)
        self.folded: tuple[Any, Any] = weight, bias

    def is_in_use(self) -> bool:
        """Return whether all memory is still that of these tensors, and not allocated anew."""
        return not any(map(StorageWeakRef.expired, self._storages))

    def write(self, folded: tuple[Any, Any], state: tuple[Any, ...]) -> None:
        """Write the values folded from the tensors in that state: norm and versions."""
        with torch.no_grad():
            for own, new in zip(self.folded, folded, strict=True):
                own.copy_(new)
        self.state = state


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.device == other.device


def _is_lasting(tensor: torch.Tensor) -> bool:
    """Return whether the next call may find this tensor, and its version if it was written to.

    A weight that is parametrised or pruned is computed for each call. Another process may write to
    shared memory; of a GPU's, PyTorch always says that it is shared.
    """
    parameter = isinstance(tensor, torch.nn.Parameter)
    return parameter and not (tensor.is_cpu and tensor.is_shared())
