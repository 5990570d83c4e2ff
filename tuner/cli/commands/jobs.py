"""``tuner jobs``: list, show, wait for and cancel jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from db.contract.order import JobFilter
from db.sql.choices import DATABASE_URL, STATES, JobState
from tuner.cli.common import JsonOption, console, database, examples, print_json, say, show
from tuner.cli.contract_options import with_options

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from db.contract.job import Job
    from db.fleet.devices import Device
    from db.results.trials import Trial

TRIALS_PER_PAGE = 1000
POLL_SECONDS = 0.5
NO_WORKER_SECONDS = 10.0
"""Seconds before a wait reports that no worker takes the job: a worker that has just been started
needs a moment to register."""


def _job_id_completer(*states: JobState) -> Callable[[str], list[tuple[str, str]]]:
    """Return a completion function for the ids of jobs in these states."""

    def begun(incomplete: str) -> list[tuple[str, str]]:
        from db.read.job_ids import find_by_prefix

        return find_by_prefix(
            os.environ.get("TUNER_DATABASE_URL") or DATABASE_URL, incomplete, states
        )

    return begun


def _operators(incomplete: str) -> list[str]:
    import templates

    return [each.name for each in templates.operators() if each.name.startswith(incomplete)]


_HELP = "its id, or the beginning of it, as `tuner jobs list` says"
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help=_HELP, autocompletion=_job_id_completer(*STATES))
]
UnendedJobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help=_HELP, autocompletion=_job_id_completer("queued", "running")
    ),
]


def list_jobs(
    operator: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATOR", help="only jobs of this operator", autocompletion=_operators
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="the most jobs to list")] = 20,
    cursor: Annotated[
        str | None, typer.Option(help="continue after an earlier list; give its next_cursor")
    ] = None,
    as_json: JsonOption = False,
    **others: Any,
) -> None:
    """List jobs, newest first: id, state, trials, best so far, shape."""
    import templates
    from db import queue
    from db.queue.waiting import devices_and_waiting_reasons
    from tuner.cli.job_report import job_json, show_jobs

    wanted = JobFilter(operator=operator, **others)
    if operator is not None:
        templates.operator(operator)
    with database() as engine:
        page = queue.list_jobs(engine, wanted, limit, cursor)
        if as_json:
            told = devices_and_waiting_reasons(engine, page.items)
            items = [job_json(job, *each) for job, each in zip(page.items, told, strict=True)]
            print_json({"items": items, "next_cursor": page.next_cursor})
            return
    if not page.items:
        which = "".join(f"{word} " for word in (wanted.state, operator) if word)
        labelled = f" whose label contains {wanted.label!r}" if wanted.label else ""
        say(f"there are no {which}jobs{labelled}{' before these' if cursor else ''}")
    show_jobs(page.items, console())
    if page.next_cursor is not None:
        show(f"older ones: --cursor {page.next_cursor}")


def show_one(
    job: JobArgument,
    with_trials: Annotated[
        bool, typer.Option("--trials", help="show every trial, too: status, time, configuration")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show one job: its state, its best so far, why it waits or why it failed."""
    from tuner.cli.job_report import show_job, show_trial, trial_json

    with database() as engine:
        found = _job(engine, job)
        trials = _trials(engine, found.id) if with_trials else None
        if as_json:
            told = _json(engine, found)
            if trials is not None:
                told["log"] = [trial_json(trial) for trial in trials]
            print_json(told)
            return
        show_job(found, *_device_and_waiting_reason(engine, found), console())
        for trial in trials or ():
            show_trial(trial, console())


def wait(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB",
            help=f"{_HELP}; without it the newest job",
            autocompletion=_job_id_completer("queued", "running"),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until a job has succeeded, with a progress bar on standard error.

    The exit code is 1 if the job fails or is cancelled. If the wait is stopped, the job goes on.
    """
    from tuner.cli.job_report import show_job
    from tuner.errors import TunerError
    from tuner.terminal.bar import JobBar

    with database() as engine:
        found = _job(engine, job) if job is not None else _newest(engine)
        with JobBar() as bar:
            warn_at = time.monotonic() + NO_WORKER_SECONDS
            while not found.ended:
                bar.show_stored(found)
                time.sleep(POLL_SECONDS)
                found = _job(engine, found.id)
                if time.monotonic() > warn_at and (
                    reason := _device_and_waiting_reason(engine, found)[1]
                ):
                    say(f"job {found.id} waits: {reason}")
                    warn_at = float("inf")
            bar.show_stored(found)
        if as_json:
            print_json(_json(engine, found))
        if found.state != "succeeded":
            how = "was cancelled" if found.state == "cancelled" else "failed"
            why = f": {found.error}" if found.error else ""
            raise TunerError(f"job {found.id} {how}{why}")
        if not as_json:
            show_job(found, *_device_and_waiting_reason(engine, found), console())


def cancel(job: UnendedJobArgument, as_json: JsonOption = False) -> None:
    """Cancel a job.

    A running job stops after the trial at hand. What was measured is kept.
    """
    from db import queue

    with database() as engine:
        ended = queue.cancel(engine, _job(engine, job).id)
        if as_json:
            print_json(_json(engine, ended))
        elif ended.ended:
            show(f"cancelled {ended.id}")
        else:
            show(f"{ended.id} will stop after its trial")


def _job(engine: Engine, begun: str) -> Job:
    """Return the job whose id begins with ``begun``."""
    from db.queue import jobs

    return jobs.get(engine, jobs.resolve_id(engine, begun))


def _newest(engine: Engine) -> Job:
    from db import queue
    from tuner.errors import TunerError

    for job in queue.list_jobs(engine, limit=1).items:
        return job
    raise TunerError("there are no jobs; order one: tuner tune, or POST /jobs of a service")


def _device_and_waiting_reason(engine: Engine, job: Job) -> tuple[Device | None, str | None]:
    """Return the job's device, and why no living worker can take it; each may be None."""
    from db.queue.waiting import devices_and_waiting_reasons

    return devices_and_waiting_reasons(engine, [job])[0]


def _json(engine: Engine, job: Job) -> dict[str, Any]:
    from tuner.cli.job_report import job_json

    return job_json(job, *_device_and_waiting_reason(engine, job))


def _trials(engine: Engine, job: str) -> Iterator[Trial]:
    from db.results import trials as log

    cursor = None
    while True:
        page = log.list_trials(engine, job, limit=TRIALS_PER_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="List, look at, wait for and cancel jobs.", no_args_is_help=True)
    group.command(
        "list",
        epilog=examples(
            "tuner jobs list", "tuner jobs list --state running", "tuner jobs list --limit 1 --json"
        ),
    )(with_options(list_jobs, JobFilter, without=("operator",)))
    group.command("show", epilog=examples("tuner jobs show JOB", "tuner jobs show JOB --trials"))(
        show_one
    )
    group.command(epilog=examples("tuner jobs wait JOB", "tuner jobs wait"))(wait)
    group.command(epilog=examples("tuner jobs cancel JOB"))(cancel)
    app.add_typer(group, name="jobs")
