"""Rules on the fields that a conv1d may combine with direction backward, or with gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticCustomError

SMOOTH = ("none", "silu", "gelu")
"""Activations with a continuous derivative."""


def check(workload: Any, edges: str) -> None:
    """Raise PydanticCustomError, which names a field, for a combination that no program serves.

    ``workload`` is a ``Conv1dWorkload`` that is being validated. ``edges`` is the field that gave
    its padding, mode or padding.

    The program of direction backward computes the sums again. If an activation's derivative jumped,
    the last bit of a sum would decide on which side of the jump the sum lies. Gates have as many
    samples as the signal, and an output is multiplied by its gate last.
    """
    own = {
        "groups": "groups is 1" if workload.is_dense else "",
        "F": f"F is {workload.F}" if workload.out_channels != workload.C else "",
        "stride": f"stride is {workload.stride}" if workload.stride > 1 else "",
        "residual": "there is a residual" if workload.residual else "",
    }
    named = f"activation is {workload.activation}"
    if workload.direction == "backward":
        smooth = workload.activation in SMOOTH
        _refuse(
            own | {"activation": "" if smooth else named},
            "not_in_one_program",
            "direction backward needs a kernel for each channel (groups and F are C), stride 1, "
            f"activation {', '.join(SMOOTH[:-1])} or {SMOOTH[-1]}, and no residual before it, but "
            "{reason}; take backward_input and backward_weight",
        )
    if workload.gated:
        whole = sum(workload.pads) == workload.span - 1
        more = {
            "layout": "" if workload.layout == "NWC" else f"layout is {workload.layout}",
            "direction": "" if workload.is_forward else f"direction is {workload.direction}",
            "activation": "" if workload.activation == "none" else named,
            edges: "" if whole else "there is not one output for each sample",
        }
        _refuse(
            own | more,
            "not_gated",
            "gated needs a kernel for each channel (groups and F are C), layout NWC, direction "
            "forward, an output for each sample (stride 1, and mode causal, or same if the kernel "
            "is no longer than the signal), no residual and no activation, but {reason}; multiply "
            "by the gates before and after the convolution",
        )


def _refuse(found: Mapping[str, str], kind: str, message: str) -> None:
    """Raise an error for the first field whose reason is not empty."""
    for field, reason in found.items():
        if reason:
            error: Any = PydanticCustomError  # its type asks for literals, as if for translations
            raise error(kind, message, {"reason": reason, "field": field})
