"""``tuner jobs``: what was ordered, how far it is, and changing one's mind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from sqlalchemy.engine import Engine

import templates
from db import queue
from db import trials as log
from db.devices import get_device, list_devices
from db.trials import Trial
from tuner.commands.common import JsonOption, console, database, print_json
from tuner.job_report import job_json, show_job, show_jobs, show_trial, trial_json
from tuner.settings import Settings
from tuner.shape_options import examples

TRIALS_PER_PAGE = 1000

OPERATORS = [each.name for each in templates.operators()]

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="its id, as `tuner jobs list` says")
]


def list_jobs(
    state: Annotated[queue.JobState | None, typer.Option(help="only jobs in this state")] = None,
    operator: Annotated[
        str | None, typer.Option(metavar="|".join(OPERATORS), help="only jobs of this operator")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="how many at most")] = 20,
    cursor: Annotated[
        str | None, typer.Option(help="go on where a list ended: its next_cursor")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The jobs, newest first: id, state, trials, best so far, shape."""
    if operator is not None:
        templates.operator(operator)
    with database(Settings()) as engine:
        page = queue.list_jobs(engine, state, operator, limit, cursor)
        if as_json:
            devices = {device.id: device for device in list_devices(engine)}
            items = [job_json(job, devices.get(job.device_id or 0)) for job in page.items]
            print_json({"items": items, "next_cursor": page.next_cursor})
            return
    show_jobs(page.items, console)
    if page.next_cursor is not None:
        console.print(f"older ones: --cursor {page.next_cursor}", soft_wrap=True, highlight=False)


def show(
    job: JobArgument,
    with_trials: Annotated[
        bool, typer.Option("--trials", help="and every trial: status, time, configuration")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """One job: where it stands, its best so far, why it failed."""
    with database(Settings()) as engine:
        found = queue.get(engine, job)
        device = None if found.device_id is None else get_device(engine, found.device_id)
        trials = _trials(engine, job) if with_trials else None
        if as_json:
            told = job_json(found, device)
            if trials is not None:
                told["log"] = [trial_json(trial) for trial in trials]
            print_json(told)
            return
        show_job(found, device, console)
        for trial in trials or ():
            show_trial(trial, console)


def cancel(job: JobArgument, as_json: JsonOption = False) -> None:
    """Stop a job, a running one within a trial. What was measured is kept."""
    with database(Settings()) as engine:
        ended = queue.cancel(engine, job)
        device = None if ended.device_id is None else get_device(engine, ended.device_id)
    if as_json:
        print_json(job_json(ended, device))
    elif ended.ended:
        console.print(f"cancelled {ended.id}", highlight=False, soft_wrap=True)
    else:
        console.print(f"{ended.id} will stop after its trial", highlight=False, soft_wrap=True)


def _trials(engine: Engine, job: str) -> Iterator[Trial]:
    cursor = None
    while True:
        page = log.list_trials(engine, job, limit=TRIALS_PER_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="List, look at and cancel jobs.", no_args_is_help=True)
    group.command(
        "list",
        epilog=examples(
            "tuner jobs list", "tuner jobs list --state running", "tuner jobs list --limit 1 --json"
        ),
    )(list_jobs)
    group.command(epilog=examples("tuner jobs show JOB", "tuner jobs show JOB --trials"))(show)
    group.command(epilog=examples("tuner jobs cancel JOB"))(cancel)
    app.add_typer(group, name="jobs")
