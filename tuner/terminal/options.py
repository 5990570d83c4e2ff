"""A workload as text: the options that give it on the command line."""

from __future__ import annotations

from templates.workload import Workload, in_text


def as_options(workload: Workload) -> str:
    """Return the options that give the workload on the command line, without fields at default."""
    return " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {in_text(value)}")
        for name, value in workload.explicit_fields.items()
    )
