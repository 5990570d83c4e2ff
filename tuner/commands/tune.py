"""``tuner tune``: a job ordered and run here."""

from __future__ import annotations

from typing import Annotated

import typer

from db import best as bests
from db.jobs import JobOrder
from templates import restriction
from templates.workload import Workload
from tuner import logs
from tuner.bar import JobBar
from tuner.commands.best import print_best
from tuner.commands.common import (
    JsonOption,
    Target,
    TargetOption,
    TemplateOption,
    database,
)
from tuner.detect import detect
from tuner.errors import UnknownStrategy
from tuner.in_process import tuned_here
from tuner.measure.linker import linker
from tuner.scratch import scratch
from tuner.search import DEFAULT, strategies
from tuner.settings import Settings
from tuner.shape_options import per_operator
from tuner.stopping import stop_on_signals

MAX_TRIALS = 100_000
MAX_SEED = 2**31 - 1
MAX_BUDGET_SECONDS = 604_800  # a week
"""The same limits as the service's."""


def tune(
    workload: Workload,
    *,
    target: TargetOption = Target.auto,
    trials: Annotated[int, typer.Option(min=1, max=MAX_TRIALS, help="configurations to try")] = 64,
    search: Annotated[
        str, typer.Option(metavar="|".join(strategies()), help="search strategy")
    ] = DEFAULT,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, help="make the search repeatable")
    ] = None,
    budget_seconds: Annotated[
        float | None, typer.Option(min=0.001, max=MAX_BUDGET_SECONDS, help="end the search after")
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_TRIALS, help="end it after so many trials, none faster"),
    ] = None,
    cold: Annotated[bool, typer.Option("--cold", help="learn nothing from other shapes")] = False,
    template: TemplateOption = None,
    retune: Annotated[bool, typer.Option("--retune", help="search on, even if tuned")] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit a job to the database and run it in this process; stopped, it gives the job back."""
    if search not in strategies():
        raise UnknownStrategy(search, strategies())
    settings = Settings()
    logs.quietly(settings.log_format)
    linker()
    device = detect(target.value)
    stop_on_signals()
    order = JobOrder(
        operator=workload.operator,
        workload_key=workload.key,
        workload=workload.model_dump(),
        target=device.kind,
        trials=trials,
        search=search,
        on_existing="retune" if retune else "reuse",
        budget_seconds=budget_seconds,
        seed=seed,
        patience=patience,
        warm_start=not cold,
        templates=restriction(template, workload.operator, device.kind),
    )
    with database(settings) as engine, scratch():
        with JobBar() as bar:
            job = tuned_here(engine, settings, device, order, bar)
        found = bests.lookup(engine, job.workload_key, device.kind, templates=order.templates)
        print_best(found[0], as_json)


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Tune a shape here and now, without a service.", no_args_is_help=True)
    uses = (
        "tuner tune {shape}",
        "tuner tune {shape} --trials 500 --budget-seconds 600",
        "tuner tune {shape} --dtype float16 --json",
    )
    per_operator(group, tune, "Tune", uses=uses)
    app.add_typer(group, name="tune")
