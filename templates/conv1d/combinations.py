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
        "groups": "the channels are dense" if workload.is_dense else "",
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
            "direction backward is for F = C kernels of channels apart at stride 1, with "
            f"{', '.join(SMOOTH)} as activation and no residual before it, but {{reason}}; take "
            "backward_input and backward_weight",
        )
    if workload.gated:
        whole = sum(workload.pads) == workload.span - 1
        more = {
            "layout": "" if workload.layout == "NWC" else f"layout is {workload.layout}",
            "direction": "" if workload.is_forward else f"direction is {workload.direction}",
            "activation": "" if workload.activation == "none" else named,
            edges: "" if whole else "outputs are not as many as samples",
        }
        _refuse(
            own | more,
            "not_gated",
            "gated is for F = C kernels of channels apart in layout NWC, direction forward, with "
            "an output for each sample (stride 1, mode causal, or same if the kernel is no longer "
            "than the signal) and neither residual nor activation, but {reason}; multiply by the "
            "gates before and behind the convolution",
        )


def _refuse(found: Mapping[str, str], kind: str, message: str) -> None:
    """Raise an error for the first field whose reason is not empty."""
    for field, reason in found.items():
        if reason:
            error: Any = PydanticCustomError  # its type asks for literals, as if for translations
            raise error(kind, message, {"reason": reason, "field": field})
