"""``tuner best``: what was found for a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from templates.workload import Workload
from tuner.cli.common import JsonOption, Target, TemplateOption, console, database, print_json
from tuner.cli.shape_options import per_operator

if TYPE_CHECKING:
    from db.results.best import Best


def best(
    workload: Workload,
    *,
    target: Annotated[Target, typer.Option(help="kind of device")] = Target.auto,
    template: TemplateOption = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="of a CPU, that it may run on at most")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look a shape up."""
    from db.results import best as bests
    from templates import restriction
    from tuner.errors import TunerError
    from tuner.terminal.untuned import not_tuned

    with database() as engine:
        kind = None if target is Target.auto else target.value
        names = restriction(template, workload.operator, target.value)
        found = bests.lookup(engine, workload.key, kind, templates=names, threads=threads)
        if not found:
            raise TunerError(not_tuned(engine, workload, kind, templates=names))
        print_best(found[0], as_json)


def print_best(found: Best, as_json: bool) -> None:
    from tuner.terminal.report import best_json, show_best

    if as_json:
        print_json(best_json(found))
    else:
        show_best(found, console())


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Show the best that was found for a shape.", no_args_is_help=True)
    uses = ("tuner best {shape}", "tuner best {shape} --target cuda --json")
    per_operator(group, best, "Show the best of", uses=uses)
    app.add_typer(group, name="best")
