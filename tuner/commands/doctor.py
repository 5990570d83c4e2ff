"""``tuner doctor``: this machine."""

from __future__ import annotations

import typer

from tuner import doctor as examination
from tuner.commands.common import JsonOption, console, print_json
from tuner.settings import Settings
from tuner.shape_options import examples


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine has and what is missing."""
    findings = examination.examine(Settings())
    if as_json:
        print_json([finding.__dict__ for finding in findings])
    else:
        examination.show(findings, console)
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("tuner doctor", "tuner doctor --json"))(doctor)
