"""The command line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import structlog
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from sqlalchemy.engine import Engine

from db import best as bests
from db import queue
from db.engine import open_engine
from db.errors import StorageError
from db.jobs import Job, JobOrder
from db.schema import check_schema, migrate
from templates.errors import TemplateError
from templates.workload import Workload
from tuner import doctor as examination
from tuner import logs
from tuner.detect import detect
from tuner.errors import TunerError, UnknownStrategy
from tuner.job import Progress
from tuner.ladder import climb_and_store, rungs_of
from tuner.ladder_report import picture, show_ladder
from tuner.measure.linker import linker
from tuner.report import best_json, show_best
from tuner.scratch import scratch
from tuner.search import DEFAULT, strategies
from tuner.settings import Settings
from tuner.shape_options import as_options, per_operator
from tuner.worker import Stopped, Worker, stop_on_signals

app = typer.Typer(
    name="tuner",
    help="Tune 1-D and depthwise 2-D convolutions for the device at hand.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
tune_app = typer.Typer(help="Tune a shape here and now, without a service.", no_args_is_help=True)
best_app = typer.Typer(help="Show the best that was found for a shape.", no_args_is_help=True)
ladder_app = typer.Typer(
    help="Climb the seed documents' steps, from naive to the tuned best.", no_args_is_help=True
)
app.add_typer(tune_app, name="tune")
app.add_typer(best_app, name="best")
app.add_typer(ladder_app, name="ladder")
console = Console()

POLL_SECONDS = 1.0
MAX_TRIALS = 100_000
MAX_SEED = 2**31 - 1
MAX_BUDGET_SECONDS = 604_800  # a week
"""The same limits as the service's."""

Target = StrEnum("Target", ["auto", "cpu", "cuda"])

TargetOption = Annotated[Target, typer.Option(help="device to tune for; auto takes a GPU if any")]


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
    retune: Annotated[bool, typer.Option("--retune", help="search on, even if tuned")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the best as JSON")] = False,
) -> None:
    """Submit a job to the database and run it in this process; stopped, it gives the job back."""
    if search not in strategies():
        raise UnknownStrategy(search, strategies())
    settings = Settings()
    logs.configure(settings.log_format)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
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
    )
    with database(settings) as engine, scratch():
        job, _ = queue.submit(engine, order)
        if not job.ended:
            worker = Worker(engine, device, settings)
            try:
                job = _run_here(engine, worker, job)
            finally:
                worker.close()
        if job.state != "succeeded":
            raise TunerError(f"the job {job.state}: {job.error or 'no reason was given'}")
        found = bests.lookup(engine, workload.key, kind=device.kind)
        _print_best(found, as_json)


def best(
    workload: Workload,
    *,
    target: Annotated[Target, typer.Option(help="kind of device")] = Target.auto,
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Look a shape up."""
    with database(Settings()) as engine:
        kind = None if target is Target.auto else target.value
        found = bests.lookup(engine, workload.key, kind=kind)
        if not found:
            raise TunerError(
                "nothing is tuned for this shape; "
                f"run: tuner tune {workload.operator} {as_options(workload)}"
            )
        _print_best(found, as_json)


def ladder(
    workload: Workload,
    *,
    document: Annotated[
        str | None, typer.Option(metavar="000|001|…", help="only the rungs of this document")
    ] = None,
    target: TargetOption = Target.auto,
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
    svg: Annotated[Path | None, typer.Option(help="draw it into this file")] = None,
) -> None:
    """Build, check and time every rung here, beside the tuned best and the peers; store the table.
    Without a shape it is the document's own, or the first document's."""
    if workload.dtype != "float32":
        raise typer.BadParameter(
            f"--dtype: a ladder's rungs are float32, but it is {workload.dtype}; "
            "leave it out, or tune the shape"
        )
    settings = Settings()
    logs.configure(settings.log_format)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    if svg is not None and not svg.absolute().parent.is_dir():
        raise typer.BadParameter(f"--svg: there is no folder {svg.absolute().parent}")
    linker()
    device = detect(target.value)
    stop_on_signals()
    try:
        with database(settings) as engine, scratch():
            climbed = climb_and_store(engine, device, settings, workload, document)
    except Stopped:
        raise TunerError("stopped; nothing of this climb was stored") from None
    if svg is not None:
        svg.write_text(picture(climbed))
    if as_json:
        print(json.dumps(climbed.to_json(), indent=2))
    else:
        show_ladder(climbed, console)


def _shape_to_climb(operator: str, given: dict[str, Any]) -> Workload:
    return rungs_of(operator, given["document"])[0].document.workload


per_operator(tune_app, tune, "Tune")
per_operator(best_app, best, "Show the best of")
per_operator(ladder_app, ladder, "Climb the ladder of", usual=_shape_to_climb)


@app.command()
def worker(
    target: TargetOption = Target.auto,
    once: Annotated[bool, typer.Option("--once", help="end when no job waits")] = False,
) -> None:
    """Take jobs from the database and run them on this machine's device."""
    settings = Settings()
    logs.configure(settings.log_format)
    linker()
    device = detect(target.value)
    stop_on_signals()
    with database(settings) as engine, scratch():
        try:
            Worker(engine, device, settings).run(once)
        except Stopped:
            structlog.get_logger().info("worker_stopped")


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(envvar="TUNER_HOST", help="address to listen on")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="TUNER_PORT", min=0, max=65535, help="port; 0 takes a free one")
    ] = 8000,
) -> None:
    """Serve the HTTP API (the same as: uvicorn api.main:app)."""
    os.execvp(  # noqa: S606  # the API is a program of its own: it needs no compiler
        sys.executable,
        [sys.executable, "-m", "uvicorn", "api.main:app", "--host", host, "--port", str(port)],
    )


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    """Say what this machine has and what is missing."""
    findings = examination.examine(Settings())
    if as_json:
        print(json.dumps([finding.__dict__ for finding in findings], indent=2))
    else:
        examination.show(findings, console)
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


@contextmanager
def database(settings: Settings) -> Iterator[Engine]:
    """The database, its schema brought up to date."""
    engine = open_engine(settings.database_url)
    try:
        migrate(engine)
        check_schema(engine)
        yield engine
    finally:
        engine.dispose()


def main() -> None:
    """Run the command line; an error is one line on standard error and a non-zero exit."""
    try:
        sys.exit(app(prog_name="tuner", standalone_mode=False))
    except typer.TyperException as error:
        context = None if isinstance(error, typer.BadParameter) else getattr(error, "ctx", None)
        hint = f"; see {context.command_path} --help" if context else ""
        message = error.format_message().rstrip(".")  # none where the help was shown instead
        _refuse(message and message + hint, error.exit_code)
    except (TunerError, StorageError, TemplateError) as error:
        _refuse(str(error))
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        _refuse(f"setting TUNER_{name}: {first['msg']}")
    except Stopped:
        _refuse("stopped; the same command goes on from the trials that are stored", 130)


def _refuse(message: str, code: int = 1) -> NoReturn:
    if message:
        print("tuner:", " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


def worker_main() -> None:
    """``python -m tuner.worker``: the worker's options without the command's name."""
    sys.argv.insert(1, "worker")
    main()


def _run_here(engine: Engine, worker: Worker, job: Job) -> Job:
    """Run the job in this process; while another worker holds it, watch it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("tuning", total=job.trials_requested)

        def watch(progress: Progress) -> None:
            time_us = progress.best["time_us"] if progress.best else None
            bar.update(
                task,
                completed=progress.measured,
                description=f"best {time_us:.2f} µs" if time_us else "tuning",
            )

        while not job.ended:
            # again and again: the worker that holds it may be gone
            claimed = queue.claim(engine, worker.name, (job.target,), job_id=job.id)
            if claimed is not None:
                worker.take(claimed, watch)
            else:
                time.sleep(POLL_SECONDS)
            job = queue.get(engine, job.id)
            bar.update(task, completed=job.trials_measured)
    return job


def _print_best(found: list[Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(best_json(found[0]), indent=2))
    else:
        show_best(found[0], console)


if __name__ == "__main__":
    main()
