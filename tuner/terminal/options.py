"""A workload as options of the command line."""

from __future__ import annotations

from templates.dtypes import USUAL_ERROR
from templates.workload import Workload, in_text


def as_options(workload: Workload) -> str:
    """The workload as it is written on the command line, what is usual left out."""
    fields = workload.model_dump(exclude_defaults=True)
    if workload.max_error == USUAL_ERROR[workload.dtype]:
        fields.pop("max_error", None)
    return " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {in_text(value)}")
        for name, value in fields.items()
    )
