"""All gradients of a layer in one kernel: which workloads are looked up, and which is ordered."""

from __future__ import annotations

from typing import Any, Literal

from templates.conv1d.combinations import SMOOTH
from templates.conv1d.workload import Conv1dWorkload
from templates.epilogue import Activation
from tuner.torch.lookup.source_lookup import workload_of

MOST_SPAN = 9
"""The most samples that taps may reach. Beyond it, a kernel for each gradient is faster."""
Fields = dict[str, Any]


def wanted(
    operator: str, fields: Fields, activation: Activation, bias: Literal["given", "apart"] | None
) -> list[Fields] | str:
    """Return the fields of the workloads of all gradients at once, or why there are none.

    The most complete comes first. ``bias`` is None if the layer has none, "given" if kernels may
    take it, and "apart" if they may not. A kernel that includes the activation computes the sums
    itself, so it must take the bias if there is one.
    """
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
    """Return whether one workload is ordered for a layer instead of one for each gradient.

    ``several`` is what :func:`wanted` returned; the first of these would be ordered.
    """
    if isinstance(several, str) or several[0].get("activation", "none") != activation:
        return False
    work = workload_of(operator, several[0])
    return isinstance(work, Conv1dWorkload) and work.span <= MOST_SPAN
