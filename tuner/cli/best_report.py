"""Printing of a best by commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.cli.common import console, print_json

if TYPE_CHECKING:
    from db.results.best import Best


def print_best(found: Best, as_json: bool) -> None:
    """Print a best as a table or, with ``as_json``, as JSON."""
    from tuner.terminal.report import best_json, show_best

    if as_json:
        print_json(best_json(found))
    else:
        show_best(found, console())
