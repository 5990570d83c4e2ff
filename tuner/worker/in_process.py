"""Ordering a job and running it in this process, without a separate worker."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from sqlalchemy.engine import Engine

from db import queue
from db.contract.job import Job
from db.contract.order import JobOrder, Terms
from db.fleet.workers import list_workers
from db.queue.waiting import waiting_reason
from db.sql.errors import StorageError
from db.sql.transaction import reading
from tuner.build.linker import must_link
from tuner.device.detect import detect
from tuner.device.device import Device
from tuner.errors import BadOrder, TunerError
from tuner.job.progress import Progress
from tuner.library.signing_key import own_key
from tuner.process.stopping import check_stopped, pause
from tuner.settings import Settings
from tuner.terminal.bar import JobBar
from tuner.worker.kept_worker import KeptWorker
from tuner.worker.worker import Worker

POLL_SECONDS = 1.0


def device_for(how: Terms) -> Device:
    """Return this process's device, which is to run orders on these terms.

    Raises NoLinker, NoDevice, and BadOrder if the terms name another device.
    """
    must_link()
    device = detect(how.target)
    if how.for_device not in (None, device.name):
        raise BadOrder(
            "for_device",
            f"is {how.for_device!r}, but this process tunes on {device.name!r}; choose another by "
            "target or CUDA_VISIBLE_DEVICES, or order from a service that has workers there",
        )
    return device


def submit_job(engine: Engine, settings: Settings, order: JobOrder, device: Device) -> Job:
    """Store an order and return its job, which is to run on this process's device.

    The job has ended already if an earlier job answers the order with a best of this device. If an
    equal job is running on another device, the order gets a new job. Raises BadSigningKey.
    """
    own_key(settings.signing_key)  # first, because without a key no best could be signed
    job, _ = queue.submit(engine, order, reused_on=device.name)
    if _is_running_elsewhere(engine, job, device):
        job, _ = queue.submit(engine, replace(order, for_device=device.name))
    return job


def _is_running_elsewhere(engine: Engine, job: Job, device: Device) -> bool:
    """Return whether a worker with another device holds the job."""
    if job.state != "running":
        return False
    holders = [each for each in list_workers(engine) if each.name == job.worker]
    return any(each.device is not None and each.device.name != device.name for each in holders)


def run_to_success(kept: KeptWorker, device: Device, job: Job, bar: JobBar | None = None) -> Job:
    """Run the job to its end in this process and return it once it has succeeded.

    Raises TunerError if it does not succeed. Raises NotReady if this machine can run no job; the
    job then waits in the queue. If other workers continue the job, a note of the exception says so.
    """
    try:
        if not job.ended:
            with kept.acquire(device) as worker:
                job = run_or_watch(kept.engine, worker, job, bar)
    except BaseException as interruption:
        if continues_elsewhere(kept.engine, job):
            interruption.add_note(f"the job goes on elsewhere; {cancel_hint(job)}")
        raise
    if job.state == "cancelled":
        raise TunerError(f"the job {job.id} was cancelled")
    if job.state != "succeeded":
        raise TunerError(f"the job {job.state}: {job.error or 'no reason was given'}")
    return job


def continues_elsewhere(engine: Engine, job: Job) -> bool:
    """Return whether another worker holds, or can take, a job that was given back.

    Return False if the database can't be asked.
    """
    with suppress(StorageError):
        now = queue.get(engine, job.id)
        if not now.ended and not now.cancel_requested:
            with reading(engine) as connection:
                return waiting_reason(connection, now) is None
    return False


def cancel_hint(job: Job) -> str:
    return f"to cancel it: tuner jobs cancel {job.id}"


def run_or_watch(engine: Engine, worker: Worker, job: Job, bar: JobBar | None = None) -> Job:
    """Run the job to its end, or watch it to its end while another worker holds it.

    Return the job as it has ended; ``bar`` shows its progress. Raises NotReady, and gives the job
    back, if this machine can't run it.
    """

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
        # try each time, because the worker that holds the job may die
        claimed = worker.claim(job.target, job.id)
        if claimed is not None:
            worker.take(claimed, watch)
        else:
            pause(POLL_SECONDS)
        job = queue.get(engine, job.id)
        if bar is not None:
            bar.show_stored(job)
    return job
