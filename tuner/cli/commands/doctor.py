"""``tuner doctor``: check what this machine has for tuning."""

from __future__ import annotations

import typer

from tuner.cli.common import JsonOption, console, examples, print_json


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine has and what is missing.

    The exit code is 1 if something is missing without which nothing can be tuned.
    """
    from tuner.cli import doctor as examination
    from tuner.settings import Settings

    findings = examination.examine(Settings())
    if as_json:
        print_json([finding.__dict__ for finding in findings])
    else:
        examination.show(findings, console())
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("tuner doctor", "tuner doctor --json"))(doctor)
