"""Times of a model's call, with its own layers and with tuned ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import nn

from tuner.torch.model.flow.dataflow import run
from tuner.torch.model.outputs import tensors
from tuner.torch.model.swap import Swap

SECONDS, ROUNDS = 0.5, 20
"""The turns end after so many seconds or so many rounds, but there are at least three rounds."""


def in_turns(call: Callable[[], Any], swaps: Sequence[Swap]) -> tuple[float, float]:
    """Return the ms of a call with the model's own layers, and with tuned ones.

    Both are medians of calls in turns, made from Python without a graph. The model must have its
    tuned layers, and has them afterwards.
    """
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


def step(model: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Return the tensors of the model's output in evaluation mode, and its parameters' gradients.

    The loss is the sum of the mean squares of the outputs. A parameter without a gradient has None.
    The model does not change: its ``grad`` attributes stay.
    """
    output = tensors(run(model, given, named, with_grad=True))
    real = [each for each in output if each.requires_grad]
    parameters = [each for each in model.parameters() if each.requires_grad]
    if not real or not parameters:
        return output
    with torch.enable_grad():  # under the caller's no_grad, too
        loss = torch.stack([each.float().square().mean() for each in real]).sum()
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [each.detach() for each in output] + list(gradients)


def _milliseconds(call: Callable[[], Any]) -> float:
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if on_gpu:
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)
