"""Finds convolutions of which a model takes one output for each sample, at any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tuner.torch.model.flow.dataflow import HEAD, Dataflow, record_dataflow


def note_cuts(
    flow: Dataflow,
    model: nn.Module,
    given: tuple[Any, ...],
    named: dict[str, Any],
    is_convolution: Callable[[nn.Module], bool],
) -> None:
    """Fill ``flow.cut_at_any_length``, by a call with one sample less.

    If the model cuts an output off after M samples, it may do so because the input has M, or at a
    fixed number that happens to be M. No convolution is found if the model can't be called with one
    sample less than the example has.
    """
    cut = {
        each: {call.input.shape[-1] for call in calls}
        for each, calls in flow.calls.items()
        if any(HEAD in call.behind for call in calls)
    }
    lengths = set().union(*cut.values())
    if len(lengths) != 1:
        return
    (samples,) = lengths
    given, named = pytree.tree_map(lambda each: _shorter(each, samples), (given, named))
    try:
        other = record_dataflow(model, given, named, is_convolution)
    except Exception:  # the model's own, which may refuse any other length
        return
    for each in cut:
        calls = other.calls.get(each, [])
        found = [(call.input.shape[-1], HEAD in call.behind) for call in calls]
        if found and set(found) == {(samples - 1, True)}:
            flow.cut_at_any_length.add(each)


def _shorter(value: Any, samples: int) -> Any:
    """Return a tensor without its last sample, if one of its axes has them; else the value."""
    if not isinstance(value, torch.Tensor) or list(value.shape).count(samples) != 1:
        return value
    return value.narrow(list(value.shape).index(samples), 0, samples - 1)
