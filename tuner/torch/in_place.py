"""The base class of layers that may stand in a model in the place of a module."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from tuner.errors import WrongArgument
from tuner.torch.functional.folding import BatchNorm
from tuner.torch.fused_modules import FusedModules
from tuner.torch.pytorch_only import PLAIN

HIDDEN = ("norm", "fused_modules")
"""Attributes of a layer that hold modules which PyTorch must not register as its submodules."""


class InPlace(torch.nn.Module):
    """A layer that may stand in a model in the place of a module.

    ``in_place_of`` holds that module, or is empty. It is a tuple, so that PyTorch's ``modules()``
    does not find the module. ``fixed`` names attributes that describe the layer's shape, such as
    ``stride``, and can't be changed. If the layer computes only a part of its output, ``whole`` has
    the attributes with which it computes all of it.
    """

    fixed: frozenset[str] = frozenset()
    in_place_of: tuple[torch.nn.Module, ...] = ()
    norm: BatchNorm | None
    fused_modules: FusedModules | None = None
    whole: Mapping[str, Any] = MappingProxyType({})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in HIDDEN:
            vars(self)[name] = value
            return
        if name == "forward" and self.fused_modules is not None:
            self.fused_modules.count_change()
        if name in self.fixed and value != getattr(self, name):
            raise WrongArgument(
                f"{name} of a layer that stands in the place of another is {getattr(self, name)}, "
                f"and can't become {value}: call restore_ on the model, set it there, and call "
                "optimize_ again"
            )
        super().__setattr__(name, value)
        if name in ("weight", "bias") and self.fused_modules is not None and not _is_plain(value):
            self.unfuse()  # it is sharded: no tensor tells when its values change

    def leave_graph(self, y: Any) -> None:
        """Note that this is an output of a call in a graph."""
        if self.fused_modules is not None:
            self.fused_modules.calls.leave_graph(y)

    def stand_alone(self) -> None:
        """From now on compute all of the convolution's output, and nothing that was taken in."""
        self.fused_modules = None
        vars(self).update(vars(self).pop("whole", {}))
        self.fuse(None, "none")

    @torch.compiler.disable(  # type: ignore[untyped-decorator]
        reason="the model was changed, so the layer computes only its convolution now: "
        "call optimize_ again"
    )
    def unfuse(self) -> None:
        """Compute the convolution alone from this call on, and warn why.

        The modules that were taken in compute themselves again.
        """
        fused = self.fused_modules
        # a replica, as torch.nn.DataParallel makes them, lasts for one call
        if fused is None or "_is_replica" in vars(self):
            return
        why = fused.why(self)
        fused.end()
        self.stand_alone()
        warnings.warn(
            f"{type(self).__name__} computes only its convolution now: {why}. The model's output "
            "stays right, but modules that were taken in compute themselves: call optimize_ again",
            stacklevel=2,
        )

    def _needs_pytorch_in_graph(self, given: Sequence[Any]) -> bool:
        """Return whether PyTorch's operators must compute a graph's output from the input, the
        weight and any other tensors. They must for tensors of classes outside ``PLAIN`` or on
        devices other than CPU and CUDA, for forward-mode differentiation, and for a batch norm that
        is in training mode, gets no batch, needs gradients or is under autocast."""
        x, weight = given[:2]
        known = x.device.type in ("cpu", "cuda") and self._are_plain(given)
        forward = torch.autograd.forward_ad._current_level >= 0
        normed = self.norm is not None and (
            self.norm.is_training()
            or x.ndim != weight.ndim
            or (torch.is_grad_enabled() and self._needs_grad(given))
            or torch.is_autocast_enabled(x.device.type)
        )
        return not known or forward or normed

    def _needs_grad(self, given: Sequence[Any]) -> bool:
        return any(each.requires_grad for each in given) or (
            self.norm is not None and self.norm.needs_grad
        )

    def _are_plain(self, given: Sequence[Any]) -> bool:
        """Return whether the classes of all tensors of a graph's call are in ``PLAIN``. The graph
        compares the classes of the layer's own parameters in each call anyway. If they were read
        here, it would compare them twice."""
        own = [*self._parameters.values()]
        others = [each for each in given if not any(each is parameter for parameter in own)]
        return all(type(each) in PLAIN for each in others) and self._has_plain_parameters()

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _has_plain_parameters(self) -> bool:
        return all(map(_is_plain, self._parameters.values()))

    @abstractmethod
    def fuse(self, norm: Any, activation: Any) -> None: ...


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in PLAIN
