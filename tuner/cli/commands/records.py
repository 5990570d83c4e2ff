"""``tuner export`` and ``tuner import``: logs to take along, and logs from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from db.sql.choices import Format, Kept
from tuner.cli.common import JsonOption, Target, console, database, examples, print_json, show

if TYPE_CHECKING:
    from db.contract.job import Job
    from templates.logs import Log


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
    from db.records.records import Filters
    from tuner.cli import records

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
    log: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="a log, or the folder of an exported MetaSchedule database; - is standard input",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Have a log's configurations measured here: a job for each of its shapes is stored. Its times
    are not believed; only what a worker finds right and fast can be best. Of AutoTVM's logs and of
    T4 results the shapes are taken, each as an order to tune it."""
    import templates
    from db.records.listed import IMPORTED
    from tuner.cli import records
    from tuner.terminal.options import as_options

    if log == "-":
        read = records.read_log(sys.stdin.buffer, "standard input")
    else:
        read = records.read_file(Path(log))
    if not as_json:
        _announce(read)
    with database() as engine:
        stored = records.store(engine, read)
    if as_json:
        print_json(_json(read, stored.jobs))
        return
    for job, created in stored.jobs:
        shape = as_options(templates.parse_key(job.workload_key))
        what = f"{job.trials} " if job.search == IMPORTED else "tune "
        note = "" if created else ", ordered before"
        where = "any device" if job.target == "auto" else job.target
        show(f"{job.id}  {job.operator} {shape}: {what}on {where}{note}")
    console().print("`tuner worker --once` measures them", highlight=False)


def _announce(log: Log) -> None:
    """What is about to be ordered, and what is not."""
    if log.shapes:
        many = "shape" if len(log.shapes) == 1 else "shapes"
        show(f"{log.format}, {log.records} records: {len(log.shapes)} {many} to tune")
    for each in log.refused:
        which = f"record {each.line}"
        if each.records > 1:
            which = f"{each.records} records, the first is {each.line}"
        show(f"not imported: {which}: {each.reason}")


def _json(log: Log, jobs: Sequence[tuple[Job, bool]]) -> dict[str, object]:
    """The same fields as the answer to ``POST /records``, without its links."""
    from db.records.listed import IMPORTED

    return {
        "format": log.format,
        "records": log.records,
        "jobs": [
            {
                "id": job.id,
                "operator": job.operator,
                "workload": job.workload,
                "target": job.target,
                "configurations": job.trials if job.search == IMPORTED else None,
                "created": created,
            }
            for job, created in jobs
        ],
        "refused": [vars(each) for each in log.refused],
    }


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "tuner export --of bests --out bests.jsonl",
            "tuner export --format metaschedule --out database",
            "tuner export --format kerneltuner --operator conv1d > results.json",
        )
    )(export)
    app.command(
        "import", epilog=examples("tuner import bests.jsonl", "tuner import cuda_v0.10.log")
    )(import_log)
