"""Times of a model's call, with its own layers and with tuned ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import nn

from tuner.errors import WrongArgument
from tuner.torch.model.flow.dataflow import in_evaluation_mode
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
    The model does not change: its ``grad`` attributes stay. Raises WrongArgument if the model has a
    reentrant checkpoint.
    """
    # until the gradients are there, because a checkpoint calls its modules once more for them
    with in_evaluation_mode(model), torch.enable_grad():
        output = tensors(model(*given, **named))
        real = [each for each in output if each.requires_grad]
        parameters = [each for each in model.parameters() if each.requires_grad]
        if not real or not parameters:
            return output
        where = real[0].device  # a model may return tensors on several devices
        loss = torch.stack([each.float().square().mean().to(where) for each in real]).sum()
        gradients = _gradients(loss, parameters)
    return [each.detach() for each in output] + gradients


def _gradients(loss: torch.Tensor, parameters: list[nn.Parameter]) -> list[Any]:
    try:
        return [*torch.autograd.grad(loss, parameters, allow_unused=True)]
    except RuntimeError as error:
        if "compatible with .grad()" not in str(error):
            raise
        # only backward() gives these gradients, but it would also run hooks, such as an optimiser's
        raise WrongArgument(
            "mode is 'training', for which the model must have no reentrant checkpoint: call "
            "torch.utils.checkpoint.checkpoint with use_reentrant=False"
        ) from error


def _milliseconds(call: Callable[[], Any]) -> float:
    on_gpu = torch.cuda.is_initialized()
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if on_gpu:
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)
