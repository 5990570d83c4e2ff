"""What kernels give in a model's call, beside what PyTorch does of the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from templates.dtypes import USUAL_ERROR
from tuner.torch.looks_up import DTYPES
from tuner.torch.model.survey import Layer
from tuner.torch.tuned_module import Tuned

ROUNDINGS = 3
"""Of the largest sum, that lie between a kernel's output and PyTorch's at most: the kernel's own,
and half of one each of a folded norm's weight and shift, and of PyTorch's sums and what it makes of
them."""


@contextmanager
def checked(wrong: dict[int, str], layers: list[Layer]) -> Iterator[None]:
    """Beside each kernel of these layers PyTorch computes, too. Those whose outputs differ by more
    than rounding explains are ``wrong``: their ids, and why. Gradients are not compared."""
    own = [vars(layer.tuned) for layer in layers]
    for layer, its in zip(layers, own, strict=True):
        its["computed"] = partial(_computed, layer, wrong)
    try:
        yield
    finally:
        for its in own:
            del its["computed"]


def _computed(
    layer: Layer, wrong: dict[int, str], x: Any, weight: Any, bias: Any, residual: Any = None
) -> Any:
    tuned: Any = layer.tuned
    y = Tuned.computed(tuned, x, weight, bias, residual)
    if tuned.used == "tuned":
        try:
            with torch.no_grad():
                apart, scale = _apart(tuned, y, x, weight, bias)
        except torch.OutOfMemoryError:
            return y  # a GPU that the model fills has no room for what it is compared with
        most = ROUNDINGS * max(tuned.max_error or 0, _rounding(x))
        if scale.isfinite() and not apart <= most * scale:
            wrong[id(layer)] = (
                f"its kernel's output is not PyTorch's: they differ by {float(apart):.1e}, and "
                f"rounding of its sums by {float(most * scale):.1e} at most; have it tuned again"
            )
    return y


def _rounding(x: Any) -> float:
    """PyTorch's. On a GPU it may take TF32 for float32, which has the digits of float16."""
    rough = x.is_cuda and x.dtype == torch.float32
    return USUAL_ERROR["float16" if rough else DTYPES[x.dtype]]


def _apart(tuned: Any, y: Any, x: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """max|y - PyTorch's|, where that is finite, and the largest sum of products' magnitudes, to
    which rounding is relative: what cancels out leaves less."""
    plain = tuned.plain(x, weight, bias)
    apart = torch.where(plain.isfinite(), (y.float() - plain.float()).abs(), 0).max()
    if tuned.norm is not None:
        weight, bias = tuned.norm.folded(weight, bias)
    magnitudes = (None if each is None else each.abs().float() for each in (x, weight, bias))
    return apart, tuned.convolved(*magnitudes).max()
