"""A job run in this process, without a worker of its own."""

from __future__ import annotations

import time

from sqlalchemy.engine import Engine

from db import queue
from db.jobs import Job, JobOrder
from tuner.bar import JobBar
from tuner.device import Device
from tuner.errors import TunerError
from tuner.job import Progress
from tuner.settings import Settings
from tuner.signing_key import own_key
from tuner.stopping import interrupted_between_transactions
from tuner.worker import Worker

POLL_SECONDS = 1.0


def tuned_here(
    engine: Engine, settings: Settings, device: Device, order: JobOrder, bar: JobBar | None = None
) -> Job:
    """The job of that order once it has succeeded. Raises TunerError where it does not."""
    own_key(settings.signing_key)  # first: without one nothing is worth ordering
    with interrupted_between_transactions():
        job, _ = queue.submit(engine, order)
        if not job.ended:
            worker = Worker(engine, device, settings)
            try:
                job = run_here(engine, worker, job, bar)
            finally:
                worker.close()
    if job.state != "succeeded":
        raise TunerError(f"the job {job.state}: {job.error or 'no reason was given'}")
    return job


def run_here(engine: Engine, worker: Worker, job: Job, bar: JobBar | None = None) -> Job:
    """Run the job to its end; while another worker holds it, watch it. Whatever ends that earlier,
    the worker gives it back."""

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

    try:
        while not job.ended:
            # again and again: the worker that holds it may be gone
            claimed = worker.claim(job.target, job.id)
            if claimed is not None:
                worker.take(claimed, watch)
            else:
                time.sleep(POLL_SECONDS)
            job = queue.get(engine, job.id)
            if bar is not None:
                bar.show(
                    state=job.state,
                    requested=job.trials_requested,
                    measured=job.trials_measured,
                    failed=job.trials_failed,
                    best_us=job.best["time_us"] if job.best else None,
                    eta_seconds=job.eta_seconds,
                )
    except BaseException:
        worker.give_back()
        raise
    return job
