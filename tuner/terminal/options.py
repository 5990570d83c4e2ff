"""A workload as options of the command line."""

from __future__ import annotations

from templates.workload import Workload, in_text


def as_options(workload: Workload) -> str:
    """The workload as it is written on the command line, what is usual left out."""
    return " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {in_text(value)}")
        for name, value in workload.told.items()
    )
