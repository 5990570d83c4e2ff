"""The check of kernels in a model's call: PyTorch computes each output too, from the same input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from templates.dtypes import USUAL_ERROR
from tuner.torch.lookup.workload_lookup import DTYPES
from tuner.torch.model.flow.functions import FunctionCall
from tuner.torch.model.survey import ModelLayer
from tuner.torch.tuned_module import Tuned

ROUNDINGS = 3
"""The most roundings of the largest sum by which a kernel's output and PyTorch's may differ: one of
the kernel's own, and a half each of a folded norm's weight, of its shift, of PyTorch's sums, and of
PyTorch's output."""


@contextmanager
def compare_kernels(wrong: dict[int, str], layers: list[ModelLayer]) -> Iterator[None]:
    """Have PyTorch compute beside each kernel of these layers, and compare the outputs.

    If they differ by more than rounding explains, ``wrong`` gets the reason, by the ``id`` of the
    layer. Gradients are not compared.
    """
    own = [vars(layer.tuned) for layer in layers]
    for layer, its in zip(layers, own, strict=True):
        its["computed"] = partial(_computed, layer, wrong)
    try:
        yield
    finally:
        for its in own:
            del its["computed"]


def compare_gates(wrong: dict[int, str], layers: list[ModelLayer]) -> None:
    """Compare the kernels of convolutions between gates with PyTorch, as :func:`compare_kernels`.

    They are called in graphs only, and not by the example's call, so the tensors are random.
    """
    for layer in layers:
        called = layer.convolution
        if not isinstance(called, FunctionCall) or not called.gated:
            continue
        tuned: Any = layer.tuned
        shape, has_bias = called.signature[:2]
        for call, _ in layer.shapes:
            of: dict[str, Any] = {"dtype": call.input.dtype, "device": call.device}
            of["generator"] = torch.Generator(call.device).manual_seed(0)
            try:
                x = tuned.in_layout_of(torch.randn(call.input.shape, **of), call.input)
                weight = torch.randn(shape, **of)
                bias = torch.randn(shape[:1], **of) if has_bias else None
                with torch.no_grad():
                    _computed(layer, wrong, x, weight, bias)
            except torch.OutOfMemoryError:
                continue


def _computed(
    layer: ModelLayer, wrong: dict[int, str], x: Any, weight: Any, bias: Any, residual: Any = None
) -> Any:
    tuned: Any = layer.tuned
    y = Tuned.computed(tuned, x, weight, bias, residual)
    if tuned.used == "tuned":
        try:
            with torch.no_grad():
                apart, scale = _apart(tuned, y, x, weight, bias)
        except torch.OutOfMemoryError:
            return y  # if the model fills the GPU, there is no room for the comparison
        most = ROUNDINGS * max(tuned.max_error or 0, _rounding(x))
        if scale.isfinite() and not apart <= most * scale:
            wrong[id(layer)] = (
                f"its kernel's output differs from PyTorch's by {float(apart):.1e}, but rounding "
                f"explains at most {float(most * scale):.1e}; have it tuned again"
            )
    return y


def _rounding(x: Any) -> float:
    """Return the relative rounding error of PyTorch's sums of ``x``.

    On a GPU PyTorch may compute float32 in TF32, which has as many digits as float16.
    """
    rough = x.is_cuda and x.dtype == torch.float32
    return USUAL_ERROR["float16" if rough else DTYPES[x.dtype]]


def _apart(tuned: Any, y: Any, x: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """Return max|y - PyTorch's y|, where PyTorch's y is finite, and the scale of rounding errors.

    The scale is the largest sum of the products' magnitudes. The largest |y| may be much smaller,
    because products cancel out.
    """
    plain = tuned.plain(x, weight, bias)
    apart = torch.where(plain.isfinite(), (y.float() - plain.float()).abs(), 0).max()
    if tuned.norm is not None:
        weight, bias = tuned.norm.folded(weight, bias)
    magnitudes = (None if each is None else each.abs().float() for each in (x, weight, bias))
    return apart, tuned.convolved(*magnitudes).max()
