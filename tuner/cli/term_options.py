"""Command line options for the terms of an order whose options have other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from db.contract.order import Terms
from tuner.cli.common import Target
from tuner.job.order import parse_terms

TERMS_WITH_OWN_OPTIONS = ("target", "on_existing", "warm_start", "templates")
"""The terms whose options have other names or forms."""

ColdOption = Annotated[bool, typer.Option("--cold", help="learn nothing from other shapes")]
RetuneOption = Annotated[
    bool, typer.Option("--retune", help="continue the search even if the shape is already tuned")
]


def terms_from_options(
    target: Target,
    cold: bool,
    template: Sequence[str] | None,
    retune: bool,
    others: Mapping[str, Any],
) -> Terms:
    """Return the terms of an order from the values of its options. Raises BadOrder."""
    return parse_terms(
        {
            "target": target.value,
            "on_existing": "retune" if retune else "reuse",
            "warm_start": not cold,
            "templates": template,
            **others,
        }
    )
