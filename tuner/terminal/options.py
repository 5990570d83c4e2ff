"""A workload as text: the options that describe it on the command line."""

from __future__ import annotations

from templates.workload import Workload, in_text


def as_options(workload: Workload) -> str:
    """Return the options that describe the workload on the command line, without default values."""
    return " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {in_text(value)}")
        for name, value in workload.explicit_fields.items()
    )
