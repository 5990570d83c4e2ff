"""A model's calls before and after, and how much its output differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tuner.torch.model.dataflow import run
from tuner.torch.model.swap import Swap

SECONDS, ROUNDS = 0.5, 20
"""The turns end after so long, or after so many, and there are three at least."""


def in_turns(call: Callable[[], Any], swaps: Sequence[Swap]) -> tuple[float, float]:
    """Milliseconds of a call with the model's own layers and with tuned ones, which it has before
    and after: medians of calls in turns, as Python has them, without a graph."""
    times: tuple[list[float], list[float]] = [], []
    end = time.perf_counter() + SECONDS
    while len(times[1]) < 3 or (len(times[1]) < ROUNDS and time.perf_counter() < end):
        for swap in swaps:
            swap.undo()
        times[0].append(_milliseconds(call))
        for swap in swaps:
            swap.apply()
        times[1].append(_milliseconds(call))
    return median(times[0]), median(times[1])


def difference(before: Any, after: Any) -> float | None:
    """max|after - before| / max|before| over all tensors of real numbers. What is infinite or NaN
    in both is no difference, and largest is the largest finite one. None if there is none, or only
    zeros, or if the shapes differ: of a model that keeps what it was called with, say."""
    olds, news = _real(before), _real(after)
    if [each.shape for each in olds] != [each.shape for each in news]:
        return None
    finite = [each[each.isfinite()].abs() for each in olds]
    largest = max((float(each.max()) for each in finite if each.numel()), default=0.0)
    if not largest:
        return None
    apart = torch.tensor(
        [
            float(torch.where(_same(new, old), 0.0, new - old).abs().max())
            for old, new in zip(olds, news, strict=True)
        ]
    )
    return float(apart.max()) / largest  # a NaN is one, which Python's max may lose


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.isclose(a, b, rtol=0, atol=0, equal_nan=True)


def _real(output: Any) -> list[torch.Tensor]:
    return [
        leaf.double()
        for leaf in pytree.tree_leaves(output)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel()
    ]


def step(model: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """The model's output in evaluation mode, and its parameters' gradients of the mean of the
    output's squares. Nothing of the model changes."""
    output = run(model, given, named, with_grad=True)
    leaves = pytree.tree_leaves(output)
    real = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    parameters = [each for each in model.parameters() if each.requires_grad]
    if not real or not parameters:
        return [output]
    with torch.enable_grad():  # under the caller's no_grad, too
        loss = torch.stack([each.float().square().mean() for each in real]).sum()
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, output), *gradients]


def _milliseconds(call: Callable[[], Any]) -> float:
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if on_gpu:
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)
