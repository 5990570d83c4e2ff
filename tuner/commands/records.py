"""``tuner export`` and ``tuner import``: logs to take along, and logs from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from db.choices import Format, Kept
from tuner.commands.common import JsonOption, Target, console, database, examples, print_json

if TYPE_CHECKING:
    from db.jobs import Job


def export(
    name: Annotated[Format, typer.Option("--format", help="whose log it is to be")] = "convtune",
    of: Annotated[
        Kept | None,
        typer.Option(help="every trial, or bests only; by default trials, of metaschedule bests"),
    ] = None,
    operator: Annotated[str | None, typer.Option(help="only of this operator")] = None,
    target: Annotated[Target, typer.Option(help="kind of device; auto: any")] = Target.auto,
    device: Annotated[str | None, typer.Option(help="only this device, by its name")] = None,
    job: Annotated[str | None, typer.Option(help="only what this job left")] = None,
    status: Annotated[str | None, typer.Option(help="only trials with this status")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="a file, or for MetaSchedule's database a folder; else standard output"),
    ] = None,
) -> None:
    """Write a log of what was measured: our own JSON lines, MetaSchedule's database, AutoTVM's log,
    or Kernel Tuner's T4 results."""
    import templates
    from db.records import Filters
    from tuner import records

    if name == "metaschedule" and of == "trials":
        raise typer.BadParameter("--of: metaschedule has bests only; no trial keeps its record")
    if operator is not None:
        templates.operator(operator)
    kind = None if target is Target.auto else target.value
    filters = Filters(operator, kind, device, job, status)
    with database() as engine:
        if out is None:
            records.write(engine, name, filters, of, sys.stdout.buffer)
        elif name == "metaschedule":
            records.write_database(engine, filters, out)
        else:
            records.write_file(engine, name, filters, of, out)


def import_log(
    log: Annotated[str, typer.Argument(metavar="FILE", help="a log; - reads standard input")],
    as_json: JsonOption = False,
) -> None:
    """Have a log's configurations measured here: a job for each of its shapes is stored. Its times
    are not believed; only what a worker finds right and fast can be best."""
    import templates
    from tuner import records
    from tuner.errors import UnusableFile
    from tuner.shape_options import as_options

    with database() as engine:
        if log == "-":
            jobs = records.take_in(engine, sys.stdin.buffer, "standard input")
        else:
            try:
                with Path(log).open("rb") as stream:
                    jobs = records.take_in(engine, stream, log)
            except OSError as error:
                raise UnusableFile(log, str(error.strerror)) from error
    if as_json:
        print_json([_json(job, created) for job, created in jobs])
        return
    for job, created in jobs:
        shape = as_options(templates.parse_key(job.workload_key))
        note = "" if created else ", ordered before"
        said = f"{job.id}  {job.operator} {shape}: {job.trials_requested} on {job.target}{note}"
        console().print(said, highlight=False, soft_wrap=True)
    console().print("`tuner worker --once` measures them", highlight=False)


def _json(job: Job, created: bool) -> dict[str, object]:
    return {
        "id": job.id,
        "operator": job.operator,
        "workload": job.workload,
        "target": job.target,
        "configurations": job.trials_requested,
        "created": created,
    }


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "tuner export --of bests --out bests.jsonl",
            "tuner export --format metaschedule --out database",
            "tuner export --format kerneltuner --operator conv1d > results.json",
        )
    )(export)
    app.command("import", epilog=examples("tuner import bests.jsonl"))(import_log)
