"""All gradients of a layer in one program: as which workloads they are looked up, and of which
layers they are ordered."""

from __future__ import annotations

from typing import Any, Literal

from templates.conv1d.workload import SMOOTH, Conv1dWorkload
from templates.epilogue import Activation
from tuner.torch.lookup import workload_of

MOST_SPAN = 9
"""Samples that taps reach. Of more, kernels of one gradient each are the faster ones."""
Fields = dict[str, Any]


def wanted(
    operator: str, fields: Fields, activation: Activation, bias: Literal["given", "apart"] | None
) -> list[Fields] | str:
    """The workloads by their fields, the most complete first; or why there is none. Its sums are
    made in the program, so that one with an activation takes a bias that there is."""
    fields = fields | {"direction": "backward"}
    found = workload_of(operator, fields)
    if isinstance(found, str):
        return found
    with_bias = [{"bias": True}] if bias == "given" else []
    several: list[Fields] = [*with_bias, {}]
    if activation in SMOOTH and activation != "none" and bias != "apart":
        several.insert(0, {"activation": activation, "bias": bias is not None})
    return [fields | each for each in several]


def is_ordered(operator: str, several: list[Fields] | str, activation: Activation) -> bool:
    """Whether the first of those workloads is ordered for a layer instead of one for each
    gradient."""
    if isinstance(several, str) or several[0].get("activation", "none") != activation:
        return False
    work = workload_of(operator, several[0])
    return isinstance(work, Conv1dWorkload) and work.span <= MOST_SPAN
