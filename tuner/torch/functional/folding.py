"""Batch norms folded into the weight and bias of the convolution before them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Self

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.optim.optimizer import register_optimizer_step_post_hook

from tuner.library.torch_transforms import records_gradients
from tuner.torch.functional import autocast

NORM_NEEDS_GRAD = (
    "gradients are needed, but its batch norm was taken into the kernel, which has no gradients; "
    "call it under torch.no_grad(), or call optimize_ with mode='training'"
)
NORM_REPLACED = (
    "its batch norm was taken into the kernel, but the graph computes with other values of the norm"
)

_steps = 0
"""Steps of all optimisers in this process. A fused optimiser's writes change no tensor's
version."""


def _count_step(*_: Any) -> None:
    global _steps  # noqa: PLW0603  # of the process, as PyTorch's hook is
    _steps += 1


register_optimizer_step_post_hook(_count_step)
_keeping = Lock()
"""Held while folded tensors are made or written: a CUDA graph reads the tensors that the first
thread made."""
os.register_at_fork(  # a child would wait for ever for a thread that it does not have
    before=_keeping.acquire, after_in_parent=_keeping.release, after_in_child=_keeping.release
)
_expired: Any = torch.UntypedStorage._expired
"""The function that :meth:`StorageWeakRef.expired` calls, in a third of that method's time."""


class BatchNorm(torch.nn.Module):
    """A batch norm that can be folded into the convolution before it.

    The ``module`` keeps its place in the model, and its parameters their names. This class is a
    module only for graphs of ``torch.compile``: :mod:`tuner.torch.fused_modules` says why.
    """

    module: Any

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        vars(self)["module"] = module  # it is a part of the model alone
        self.folds: list[Fold] = []
        """The folds that are kept: one for each set of places in memory of the tensors folded."""

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
        except KeyError:  # a parametrised tensor or plain attribute takes longer to read
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

    def why_unfoldable(self, x: torch.Tensor, weight: torch.Tensor) -> str | None:
        """Return why it can't be folded into a convolution of ``x`` at the moment, or None."""
        if self.needs_grad and records_gradients(torch):
            return NORM_NEEDS_GRAD
        if self.is_training():
            return (
                "its batch norm uses the batch's own statistics, as in training mode; call eval()"
            )
        if x.ndim != weight.ndim:
            return (
                f"the input has {x.ndim} dimensions, and a kernel that includes a batch norm takes "
                f"only batches, which have {weight.ndim}"
            )
        if autocast.is_on(x.device.type):
            return (
                "autocast is on, but the kernel includes a batch norm; call optimize_ under "
                "autocast as well"
            )
        return None

    def normalised(
        self, y: torch.Tensor, tensors: Sequence[torch.Tensor | None] = ()
    ) -> torch.Tensor:
        """Return the norm of ``y``, by these ``tensors`` if they are given, as :attr:`tensors`
        orders them.

        Otherwise its class's ``forward`` computes it, because the module's own may be
        :class:`~tuner.torch.fused_modules.PassThrough`, which does not compute."""
        if tensors:
            weight, bias, mean, variance = tensors
            return torch.nn.functional.batch_norm(
                y, mean, variance, weight, bias, eps=self.module.eps
            )
        taken: torch.Tensor = torch.nn.modules.batchnorm._BatchNorm.forward(self.module, y)
        return taken

    def folded(self, weight: Any, bias: Any) -> tuple[Any, Any]:
        """Return the weight and bias of one convolution that includes this norm.

        If all weights and biases that are folded are parameters, the result is kept while their
        memory and the running statistics' is in use. If something is written to that memory, the
        next call writes the new values into the same two tensors. So a CUDA graph that reads these
        two gets the new values too.
        """
        return self.fold(weight, bias).values

    def fold(self, weight: Any, bias: Any, last: Fold | None = None) -> Fold:
        """Return what :meth:`folded` does, as a :class:`Fold`.

        ``last`` is what an earlier call returned for tensors of the same dtypes and strides: to
        check that one takes less time than to search all.
        """
        parts = (weight, bias, *self.tensors())
        # training leaves the versions of running mean and variance, but counts batches
        counted = *parts, self.module._buffers.get("num_batches_tracked")
        tensors = [each for each in counted if each is not None]
        try:
            written = [(each._version, each.data_ptr()) for each in tensors]
        except RuntimeError:  # made in inference mode, a tensor has no version to tell of writes
            return Fold(self._computed(*parts))
        state = self.module.eps, _steps, written
        if last is not None and last.is_current(state):
            return last
        places = [(each.data_ptr(), each.shape, each.stride(), each.dtype) for each in tensors]
        for fold in self.folds:
            if fold.places == places and fold.is_current(state):
                return fold
        lasting = all(each is None or _is_lasting(each) for each in parts[:4])
        if not lasting or counted[-1] is None:
            return Fold(self._computed(*parts))
        if weight.is_cuda and torch.cuda.is_current_stream_capturing():
            return Fold(self._computed(*parts))  # so the graph folds anew in each replay
        with _keeping:
            self.folds = [each for each in self.folds if each.is_in_use()]
            values = self._computed(*parts)
            for fold in self.folds:
                if fold.places == places:
                    break
            else:
                fold = Fold.kept(values, tensors, places)
                self.folds.append(fold)
            fold.write(values, state)
        return fold

    def _computed(self, weight: Any, *others: Any) -> tuple[Any, Any]:
        """Return the weight and bias from those of the convolution and from :attr:`tensors`."""
        values: list[Any] = [
            None if each is None else each.detach().float() for each in (weight, *others)
        ]
        w, b, gain, shift, mean, variance = values
        made = fuse_conv_bn_weights(w, b, mean, variance, self.module.eps, gain, shift)
        folded, offset = (each.detach().to(weight.dtype).contiguous() for each in made)
        return folded, offset

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"folds": []}


class Fold:
    """The weight and bias of a convolution with a norm folded in.

    They are for one call, unless :meth:`kept` has made them.
    """

    def __init__(self, values: tuple[Any, Any]) -> None:
        self.values = values
        self.places: list[Any] = []
        self._storages: list[StorageWeakRef] = []
        self._numbers: list[int] = []  # by which :func:`_expired` knows the storages
        self._state: tuple[Any, ...] | None = None

    @classmethod
    def kept(
        cls, like: tuple[Any, Any], tensors: Sequence[torch.Tensor], places: list[Any]
    ) -> Self:
        """Return tensors like those given, to be written to and kept.

        Their values are folded from ``tensors``, which lie in memory as ``places`` say.
        """
        # in a thread of its own, because this one may be in inference mode, or warm up a CUDA graph
        # of torch.compile: what it allocates then must not outlive that graph's call
        with ThreadPoolExecutor(1) as thread:
            weight, bias = thread.map(torch.empty_like, like)
        made = cls((weight, bias))
        made.places = places
        made._storages = [StorageWeakRef(each.untyped_storage()) for each in tensors]
        made._numbers = [each.cdata for each in made._storages]
        return made

    def is_current(self, state: tuple[Any, ...]) -> bool:
        """Return whether the values were folded in that ``state`` of the norm, of optimisers' steps
        and of tensors' versions and addresses, and these are in use."""
        return self._state == state and self.is_in_use()

    def is_in_use(self) -> bool:
        """Return whether all memory still belongs to these tensors, and was not allocated anew."""
        return True not in map(_expired, self._numbers)

    def write(self, values: tuple[Any, Any], state: tuple[Any, ...]) -> None:
        """Write the values folded from the tensors in that state."""
        with torch.no_grad():
            for own, new in zip(self.values, values, strict=True):
                own.copy_(new)
        self._state = state


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.device == other.device


def _is_lasting(tensor: torch.Tensor) -> bool:
    """Return whether the next call may find this tensor again, with a new version if written to.

    A weight that is parametrised or pruned is computed for each call. Another process may write to
    shared memory. PyTorch calls all memory of a GPU shared, so there this is not asked.
    """
    parameter = isinstance(tensor, torch.nn.Parameter)
    return parameter and not (tensor.is_cpu and tensor.is_shared())
