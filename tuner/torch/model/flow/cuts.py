"""Whether a model takes one output of a convolution for each sample, however many there are."""

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
    """Find the convolutions ``flow.cut_at_any_length``, by a call with one sample less.

    An output of M samples may have been cut off behind M samples or behind a number that is M just
    now. None is found if the model can't be called with one sample less than the example has.
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
