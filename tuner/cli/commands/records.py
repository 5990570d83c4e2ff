"""``tuner export`` and ``tuner import``: write logs or a package of kernels, and read logs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from db.sql.choices import Format, Kept, TrialStatus
from tuner.cli.common import JsonOption, Target, console, database, examples, print_json, say, show

if TYPE_CHECKING:
    from db.contract.job import Job
    from db.records.records import Filters
    from templates.logs import Log
    from templates.workload import Workload


def export(
    name: Annotated[Format, typer.Option("--format", help="format of the log")] = "convtune",
    of: Annotated[
        Kept | None,
        typer.Option(
            help="every trial, or only bests; default: trials, but bests for metaschedule"
        ),
    ] = None,
    operator: Annotated[str | None, typer.Option(help="only of this operator")] = None,
    target: Annotated[Target, typer.Option(help="kind of device; auto: any")] = Target.auto,
    device: Annotated[str | None, typer.Option(help="only this device, by its name")] = None,
    job: Annotated[
        str | None,
        typer.Option(help="only the results of this job: its id, or the beginning of it"),
    ] = None,
    status: Annotated[TrialStatus | None, typer.Option(help="only trials with this status")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="a file, or for MetaSchedule's database a folder; - and the default are standard "
            "output"
        ),
    ] = None,
    package: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="instead of a log, write the bests' kernels as a Python package into this new "
            "folder",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="for a package: the layers of this model, by its id in `tuner model list`"
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="for a package: the workloads of the list in this file"
        ),
    ] = None,
    package_name: Annotated[
        str | None, typer.Option("--name", help="for a package: its name, by default the folder's")
    ] = None,
) -> None:
    """Write a log of what was measured, or the bests' kernels as a Python package.

    A log has the form of our own JSON lines, MetaSchedule's database, AutoTVM's log or Kernel
    Tuner's T4 results. With --package, the kernels of a model, of a list or of all bests are
    written as a Python package, which needs neither this program nor TVM.
    """
    import templates
    from db.queue import jobs
    from db.records.records import Filters
    from tuner.cli import records

    if name == "metaschedule" and of == "trials":
        raise typer.BadParameter(
            "--of must be bests for metaschedule, because trials keep no record of MetaSchedule's"
        )
    if operator is not None:
        templates.operator(operator)
    kind = None if target is Target.auto else target.value
    filters = Filters(operator, kind, device, job, status)
    if package is not None:
        logs = {"--of": of, "--job": job, "--status": status, "--out": out}
        _refuse(logs | {"--format": None if name == "convtune" else name}, "does not go with")
        if model is not None and file is not None:
            raise typer.BadParameter("--file does not go with --model")
        _package(package, filters, model, file, package_name)
        return
    _refuse({"--model": model, "--file": file, "--name": package_name}, "needs")
    with database() as engine:
        if job is not None:
            filters = replace(filters, job=jobs.resolve_id(engine, job))
        if out in (None, Path("-")):
            records.write(engine, name, filters, of, sys.stdout.buffer)
        elif name == "metaschedule":
            records.write_database(engine, filters, out)
        else:
            records.write_file(engine, name, filters, of, out)


def _refuse(options: Mapping[str, object], why: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise typer.BadParameter(f"{given[0]} {why} --package")


def _package(
    folder: Path, filters: Filters, model: str | None, file: Path | None, given: str | None
) -> None:
    """Write the bests' kernels as a package. Print what it holds, and what was left out and why.

    Raises NotTuned if there is no kernel to write.
    """
    from tuner.client.local import Local
    from tuner.errors import NotTuned
    from tuner.package import folder as packages
    from tuner.package.contents import chosen, contents

    name = packages.name_of(folder, given)
    named = _workloads(model, file)
    with Local() as local:
        found = contents(
            local, chosen(local, named, filters.operator, filters.kind, filters.device)
        )
    for line in found.left_out:
        say(f"left out: {line}")
    if not found.kernels:
        terms = {"operator": filters.operator, "target": filters.kind, "device": filters.device}
        said = "".join(f" --{name} {value}" for name, value in terms.items() if value is not None)
        why = f"there is nothing to pack{said and f' with{said}'}"
        raise NotTuned(None, f"{why}: tune a shape first, as by tuner tune")
    packages.write(folder, name, found)
    devices = sorted({str(each.row["device"]) for each in found.kernels})
    show(f"{folder}: {len(found.kernels)} kernels for {', '.join(devices)}")
    where = folder if folder.is_absolute() else f"./{folder}"  # without ./ pip would ask an index
    quoted = shlex.quote(str(where))
    show(f"to use it: pip install {quoted}; python -m {name.replace('-', '_')}.check")


def _workloads(model: str | None, file: Path | None) -> list[Workload] | None:
    """Return the workloads of a stored model or of a list in a file; None if neither is given."""
    import templates
    from db import models
    from db.contract.order import Terms
    from tuner.cli.model_workloads import read_workloads
    from tuner.job.model_order import make_model_order

    if model is not None:
        with database() as engine:
            found = models.get(engine, models.resolve_id(engine, model))
            keys = [layer.job.workload_key for layer in models.layers(engine, found)]
    elif file is not None:
        order = make_model_order(file.stem, read_workloads(file), Terms(), "auto")
        keys = [layer.order.workload_key for layer in order.layers]
    else:
        return None
    return [templates.parse_key(key) for key in keys]


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
    """Have a log's configurations measured here, with a job for each of its shapes.

    The log's times are not used: only what a worker finds right and fast can become a best. From
    AutoTVM's logs and T4 results only the shapes are taken, each as an order to tune it.
    """
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
    """Print which shapes of the log will be tuned, and which records are refused and why."""
    if log.shapes:
        many = "shape" if len(log.shapes) == 1 else "shapes"
        show(f"{log.format}, {log.records} records: {len(log.shapes)} {many} to tune")
    for each in log.refused:
        which = f"record {each.line}"
        if each.records > 1:
            which = f"{each.records} records, the first is {each.line}"
        show(f"not imported: {which}: {each.reason}")


def _json(log: Log, jobs: Sequence[tuple[Job, bool]]) -> dict[str, object]:
    """Return the fields of the answer to ``POST /records``, without its links."""
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
            "tuner export --package my_kernels --model MODEL",
        )
    )(export)
    app.command(
        "import", epilog=examples("tuner import bests.jsonl", "tuner import cuda_v0.10.log")
    )(import_log)
