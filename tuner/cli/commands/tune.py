"""``tuner tune``: order a job and run it in this process."""

from __future__ import annotations

import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import typer

from db.contract.order import Terms
from templates.workload import Workload
from tuner.cli.best_report import print_best
from tuner.cli.common import (
    JsonOption,
    Target,
    TargetOption,
    TemplateOption,
    database,
    say,
)
from tuner.cli.contract_options import with_options
from tuner.cli.shape_options import add_operator_commands
from tuner.cli.term_options import (
    TERMS_WITH_OWN_OPTIONS,
    ColdOption,
    RetuneOption,
    terms_from_options,
)
from tuner.errors import TunerError
from tuner.job.order import make_order
from tuner.process.stopping import Stopped, stop_on_signals

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from db.contract.job import Job
    from db.results.best import Best


def tune(
    workload: Workload,
    *,
    target: TargetOption = Target.auto,
    cold: ColdOption = False,
    template: TemplateOption = None,
    retune: RetuneOption = False,
    as_json: JsonOption = False,
    **others: Any,
) -> None:
    """Submit a job to the database, run it in this process and print the best.

    If the process is stopped, it gives the job back.
    """
    print_best(
        tuned_best(workload, terms_from_options(target, cold, template, retune, others)), as_json
    )


def tuned_best(workload: Workload, how: Terms) -> Best:
    """Run the order in this process and return the best.

    If an earlier job answers the order, nothing is run, and the best is that job's.
    Raises TunerError if the best was deleted after the job was found.
    """
    from db.results import best as bests
    from tuner.process import logs
    from tuner.settings import Settings
    from tuner.terminal.bar import JobBar
    from tuner.worker.in_process import device_for, run_to_success, submit_job
    from tuner.worker.kept_worker import KeptWorker

    settings = Settings()
    logs.configure_warnings_only(settings.log_format)
    device = device_for(how)
    stop_on_signals()
    order = make_order(workload, how, device.kind)
    with database(settings) as engine, closing(KeptWorker(engine, settings)) as kept:
        job = submit_job(engine, settings, order, device)
        if job.ended:
            say(
                f"already tuned by job {job.id}, {job.trials_measured} trials on "
                f"{job.finished_at:%Y-%m-%d}; --retune continues the search"
            )
        else:
            try:
                with JobBar() as bar:
                    run_to_success(kept, device, job, bar)
            except Stopped:
                raise Stopped(_message_if_stopped(engine, job)) from None
        found = bests.lookup(
            engine, job.workload_key, device.kind, device.name, templates=order.templates
        )
    if not found:
        raise TunerError(
            f"job {job.id} succeeded, but on another device, or its best was deleted since; run "
            "the same command again"
        )
    return found[0]


def _message_if_stopped(engine: Engine, job: Job) -> str:
    """Return a message that says what becomes of a job that was given back.

    If another worker continues the job and there is a terminal, ask whether to cancel it.
    """
    from db import queue
    from db.sql.errors import StorageError
    from tuner.worker.in_process import cancel_hint, continues_elsewhere

    if not continues_elsewhere(engine, job):
        return "stopped; the same command goes on from the trials that are stored"
    goes_on_there = f"stopped here; another worker goes on with job {job.id}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return f"{goes_on_there}; {cancel_hint(job)}"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C means no
    try:
        if typer.confirm(f"{goes_on_there}. Cancel it?", err=True):
            queue.cancel(engine, job.id)
            return f"cancelled {job.id}; what was measured is kept"
    except StorageError as error:
        return str(error)
    except (typer.Abort, KeyboardInterrupt):
        pass
    return f"{goes_on_there}; {cancel_hint(job)}"


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Tune a shape here and now, without a service.", no_args_is_help=True)
    uses = (
        "tuner tune {shape}",
        "tuner tune {shape} --trials 500 --budget-seconds 600",
        "tuner tune {shape} --dtype float16 --json",
    )
    add_operator_commands(
        group, with_options(tune, Terms, TERMS_WITH_OWN_OPTIONS), "Tune", uses=uses
    )
    app.add_typer(group, name="tune")
