"""``tuner best``: show the best that was found for a shape."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from db.contract.order import PREDICTION
from templates.workload import Workload
from tuner.cli.best_report import print_best
from tuner.cli.common import JsonOption, Target, TemplateOption, database
from tuner.cli.shape_options import add_operator_commands

Match = StrEnum("Match", ["exact", "predicted"])


def best(
    workload: Workload,
    *,
    match: Annotated[
        Match,
        typer.Option(
            help="predicted: if the shape has no best, build, check and time here the "
            "configurations that are expected to be fast, without a search"
        ),
    ] = Match.exact,
    target: Annotated[Target, typer.Option(help="kind of device; auto: any")] = Target.auto,
    template: TemplateOption = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="the most CPU threads that the kernel may use")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the best of a workload; with ``match=predicted``, find one first if there is none."""
    from db.results import best as bests
    from templates import restriction
    from tuner.errors import TunerError
    from tuner.terminal.untuned import not_tuned_message

    with database() as engine:
        kind = None if target is Target.auto else target.value
        names = restriction(template, workload.operator, target.value)
        found = bests.lookup(engine, workload.key, kind, templates=names, threads=threads)
        if not found and match is not Match.predicted:
            raise TunerError(not_tuned_message(engine, workload, kind, templates=names))
    if not found:
        from tuner.cli.commands.tune import tuned_best
        from tuner.job.order import parse_terms

        found = [
            tuned_best(
                workload, parse_terms({**PREDICTION, "target": target.value, "templates": names})
            )
        ]
    print_best(found[0], as_json)


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Show the best that was found for a shape.", no_args_is_help=True)
    uses = (
        "tuner best {shape}",
        "tuner best {shape} --match predicted",
        "tuner best {shape} --target cuda --json",
    )
    add_operator_commands(group, best, "Show the best of", uses=uses)
    app.add_typer(group, name="best")
