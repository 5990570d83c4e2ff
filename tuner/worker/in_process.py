"""A job run in this process, without a worker of its own."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy.engine import Engine

from db import queue
from db.contract.job import Job
from db.contract.order import JobOrder
from db.queue.takers import waiting_reason
from db.sql.errors import StorageError
from db.sql.transaction import reading
from tuner.device.device import Device
from tuner.errors import TunerError
from tuner.job.progress import Progress
from tuner.library.signing_key import own_key
from tuner.process.stopping import check_stopped, pause
from tuner.settings import Settings
from tuner.terminal.bar import JobBar
from tuner.worker.kept import KeptWorker
from tuner.worker.worker import Worker

POLL_SECONDS = 1.0


def ordered_here(engine: Engine, settings: Settings, order: JobOrder) -> Job:
    """The job of that order, which has ended if an earlier one answers it."""
    own_key(settings.signing_key)  # first: without one nothing is worth ordering
    return queue.submit(engine, order)[0]


def tuned_here(kept: KeptWorker, device: Device, job: Job, bar: JobBar | None = None) -> Job:
    """The job once it has succeeded. Raises TunerError if it does not. What interrupts it has a
    note if other workers go on with the job."""
    try:
        if not job.ended:
            with kept.at_work(device) as worker:
                job = run_here(kept.engine, worker, job, bar)
    except BaseException as interruption:
        if goes_on(kept.engine, job):
            interruption.add_note(f"the job goes on elsewhere; {how_to_cancel(job)}")
        raise
    if job.state != "succeeded":
        raise TunerError(f"the job {job.state}: {job.error or 'no reason was given'}")
    return job


def goes_on(engine: Engine, job: Job) -> bool:
    """Whether a job that was given back is held by another worker, or will be: one that lives can
    take it."""
    with suppress(StorageError):
        now = queue.get(engine, job.id)
        if not now.ended and not now.cancel_requested:
            with reading(engine) as connection:
                return waiting_reason(connection, now) is None
    return False


def how_to_cancel(job: Job) -> str:
    return f"to cancel it: tuner jobs cancel {job.id}"


def run_here(engine: Engine, worker: Worker, job: Job, bar: JobBar | None = None) -> Job:
    """Run the job to its end; while another worker holds it, watch it."""

    def watch(progress: Progress) -> None:
        if bar is not None:
            bar.show(
                state="running",
                requested=progress.requested,
                measured=progress.measured,
                failed=progress.failed,
                best_us=progress.best["time_us"] if progress.best else None,
                eta_seconds=progress.eta_seconds,
            )

    while not job.ended:
        check_stopped()
        # again and again: the worker that holds it may be gone
        claimed = worker.claim(job.target, job.id)
        if claimed is not None:
            worker.take(claimed, watch)
        else:
            pause(POLL_SECONDS)
        job = queue.get(engine, job.id)
        if bar is not None:
            bar.show_stored(job)
    return job
