"""The worker: claims jobs for its device, runs them, and gives them back when it must stop.

``python -m tuner.worker`` runs it until SIGTERM, SIGINT or SIGHUP.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import CancelledError
from typing import Any, Literal

import structlog
from sqlalchemy.engine import Engine

import templates
from db import queue
from db.contract.job import Job
from db.fleet import devices, workers
from db.read import events
from db.results import signed, signers
from db.sql.errors import DatabaseUnavailable, LeaseLost
from templates.template import Template
from tuner import __version__
from tuner.build.blame import blame_job, must_be_ready
from tuner.build.builder import Builder
from tuner.compare.peer_process import PeerProcesses
from tuner.device.device import Device
from tuner.errors import MissingRuntime, NoServer, NotReady, TunerError
from tuner.farm.farm import Farm
from tuner.job.job import JobRun
from tuner.job.lease import Cancelled, Lease
from tuner.job.progress import Progress
from tuner.job.publish import Signing, signer_of
from tuner.library.signing_key import own_key, public_key_of
from tuner.measure.confined import can_be_confined, probe_driver
from tuner.process.scratch import Scratch
from tuner.process.stopping import Stopped, check_stopped, pause
from tuner.settings import Settings
from tuner.worker.metrics import WorkerMetrics

log = structlog.get_logger()

BEAT_SECONDS = 20.0
RETRY_SECONDS = 2.0
SETTLE_SECONDS = 15.0
"""For this many seconds after the database was silent, jobs whose lease ran out are not claimed,
because their workers could not renew the lease. A heartbeat comes through in less time."""
SERVER_SECONDS = 10.0
"""Seconds before a tracker without a free server is asked again."""
READY_SECONDS = 10.0
"""Seconds before a machine that could run no job is checked again."""
TRIALS_PER_READ = 100
"""How many newly stored trials are read at once to be counted. A progress report usually comes
after a single new trial."""
ENDS = "the program ends, or this worker was closed"
"""The reason to give a job back if executors take no work any more, or have cancelled it."""


class Worker:
    """A worker for one device. It runs one job at a time and has a pool of builders.

    ``only`` restricts searches to the templates of these names. With a ``farm``, libraries are
    measured on its servers. ``scratch`` has this process's temporary files; if it was removed, it
    is made anew before a job. ``trusted`` are the public keys that the user of the results trusts
    beside this worker's own; None means every registered key. Raises BadSigningKey and
    MissingRuntime now rather than after a search.
    """

    def __init__(
        self,
        engine: Engine,
        device: Device,
        settings: Settings,
        only: Collection[str] | None = None,
        farm: Farm | None = None,
        scratch: Scratch | None = None,
        trusted: frozenset[str] | None = None,
    ) -> None:
        _must_have_docstrings()
        self._only, self._farm, self._scratch, self._trusted = only, farm, scratch, trusted
        self._engine, self._device, self._settings = engine, device, settings
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._key = own_key(settings.signing_key)
        signers.register(engine, signer_of(self._key))
        self._device_id = devices.upsert_device(engine, device.fingerprint()).id
        self._builder = Builder(
            settings.build_workers, settings.build_seconds, settings.build_cache
        )
        self._peers = PeerProcesses(device.kind) if farm is None else None
        self._last_beat = -BEAT_SECONDS
        self._ready = True  # False after a job that this machine could not run
        self._listed = False  # whether the database lists this worker as living
        self._silent_at = -math.inf  # when the database last did not answer
        self._abandoned_jobs: list[Job] = []  # lost because of that, to be uncharged
        self._metrics = WorkerMetrics()

    def run(self, once: bool = False) -> None:
        """Take jobs until stopped; with ``once``, until no job waits.

        If the database does not answer, the farm has no free server or this machine can run no
        job, the worker waits and tries again. With ``once``, it raises DatabaseUnavailable,
        NoServer or NotReady instead.
        """
        signer = signed.fingerprint(public_key_of(self._key))
        log.info("worker_started", worker=self.name, device=self._device.name, signer=signer)
        try:
            with self._metrics.served(self._settings.metrics_host, self._settings.metrics_port):
                self._builder.warm_up()
                if self._device.kind == "cuda" and self._farm is None:
                    can_be_confined(probe_driver)  # or the first job would wait for this check
                self._take_jobs(once)
        finally:
            self.close()

    def _take_jobs(self, once: bool) -> None:
        while True:
            check_stopped()
            try:
                job = self._next()
                if job is not None:
                    self.take(job)
                elif once:
                    return
                else:
                    pause(self._settings.poll_seconds)
            except (DatabaseUnavailable, NoServer, NotReady) as error:
                if once:
                    raise
                self._wait_out(error)

    def _wait_out(self, error: Exception) -> None:
        event, seconds = "machine_not_ready", READY_SECONDS
        if isinstance(error, DatabaseUnavailable):
            event, seconds = "database_unavailable", RETRY_SECONDS
            self._silent_at = time.monotonic()
        elif isinstance(error, NoServer):
            event, seconds = "no_server", SERVER_SECONDS
        log.warning(event, reason=str(error))
        pause(seconds)

    def take(self, job: Job, watch: Callable[[Progress], None] = lambda _: None) -> None:
        """Run a job that this worker has claimed to its end: success, failure or cancellation.

        ``watch`` is called with each progress. If the database stops answering, the job is left
        until its lease runs out: the next worker to claim it continues from its trials, and this
        worker's next :meth:`claim` uncharges the attempt. If this process is asked to end, or this
        machine can't run the job (NotReady), the job is given back and the exception is raised.
        """
        with structlog.contextvars.bound_contextvars(job_id=job.id, attempt=job.attempt):
            log.info("job_started", operator=job.operator, workload=job.workload)
            self._metrics.job_begins(job.id)
            outcome = "released"
            try:
                outcome = self._run_to_end(job, watch)
                if self._peers is not None:
                    self._peers.refill()
            except LeaseLost as lost:
                outcome = "lost"
                log.warning("lease_lost", reason=str(lost))
            except DatabaseUnavailable as error:
                outcome = "left"
                self._silent_at = time.monotonic()
                self._abandoned_jobs.append(job)
                log.warning("job_left_to_its_lease", reason=str(error))
            except NoServer as error:
                log.warning("job_without_server", reason=str(error))
                self._give_back(job)
                pause(SERVER_SECONDS)
            except NotReady:
                self._ready = False
                self._give_back(job)
                raise
            finally:
                self._metrics.job_ends(outcome)

    def close(self) -> None:
        """End the worker's processes and take it off the list of living workers."""
        self._builder.close()
        if self._peers is not None:
            self._peers.close()
        if self._farm is not None:
            self._farm.close()
        self.leave()

    def leave(self) -> None:
        """Take this worker off the list of living workers, until its next job."""
        if not self._listed:
            return
        try:
            self._uncharge_lost_attempts()
            workers.leave(self._engine, self.name)
        except DatabaseUnavailable as error:
            log.warning("database_unavailable", reason=str(error))
        else:
            self._listed = False

    def _next(self) -> Job | None:
        """Claim and return the next job; None if none waits.

        Every BEAT_SECONDS without a job, tell the database that this worker lives.
        """
        if time.monotonic() - self._last_beat > BEAT_SECONDS:
            self._beat(None)
            self._last_beat = time.monotonic()
        if self._farm is not None:
            self._farm.await_free()
        if not self._ready:
            must_be_ready(self._scratch)
            self._ready = True
        job = self.claim(self._device.kind)
        if job is not None:
            self._last_beat = -BEAT_SECONDS
        return job

    def claim(self, kind: str, job_id: str | None = None) -> Job | None:
        """Claim a job for a kind of device, or the job ``job_id``; see :func:`db.queue.claim`.

        Jobs that this worker left because the database was silent are given back first, uncharged.
        """
        self._uncharge_lost_attempts()
        silent = time.monotonic() - self._silent_at < SETTLE_SECONDS
        return queue.claim(
            self._engine,
            self.name,
            (kind,),
            job_id=job_id,
            spare_expired=silent,
            device=self._device.name,
        )

    def _uncharge_lost_attempts(self) -> None:
        """Uncharge the attempts that this worker lost because the database was silent."""
        while self._abandoned_jobs:
            lost = self._abandoned_jobs[-1]
            queue.excuse(self._engine, lost.id, lost.attempt)
            self._abandoned_jobs.pop()

    def _run_to_end(self, job: Job, watch: Callable[[Progress], None]) -> str:
        """Run the job, store how it ended, and return that state."""
        try:
            self._run(job, watch)
            log.info("job_succeeded")
        except Cancelled:
            return self._end(job, "cancelled")
        except (LeaseLost, DatabaseUnavailable, NoServer, NotReady):
            raise
        except TunerError as error:
            return self._end(job, "failed", str(error))
        except Exception as error:
            log.exception("job_crashed")
            return self._end(job, "failed", f"{type(error).__name__}: {error}")
        except BaseException:
            self._give_back(job)
            raise
        return "succeeded"

    def _run(self, job: Job, watch: Callable[[Progress], None]) -> None:
        self._beat(job.id)
        must_be_ready(self._scratch)
        with Lease(self._engine, job, beat=lambda: self._beat(job.id)) as lease:
            run = JobRun(
                self._engine,
                lease,
                self._device,
                self._device_id,
                self._builder,
                settings=self._settings,
                signing=Signing(self._key, self._trusted),
                among=self._allowed_templates(job),
                farm=self._farm,
                peers=self._peers,
                watch=self._counting_watch(job, watch),
            )
            try:
                run.run()
            except LeaseLost:
                if lease.silent:
                    self._abandoned_jobs.append(job)
                raise
            except (TunerError, OSError) as error:
                check_stopped()  # a signal that ends this process may have ended its child first
                blame_job(error)
                raise
            except RuntimeError as error:
                if "cannot schedule new futures" in str(error):  # has no type of its own
                    raise Stopped(ENDS) from error
                raise
            except CancelledError as error:
                raise Stopped(ENDS) from error

    def _counting_watch(
        self, job: Job, watch: Callable[[Progress], None]
    ) -> Callable[[Progress], None]:
        """Return ``watch``; if metrics are served, wrapped to count the newly stored trials."""
        if self._settings.metrics_port is None:
            return watch
        known = events.snapshot(self._engine, job.id)
        last = known.last

        def count(progress: Progress) -> None:
            nonlocal last
            page = None
            while page is None or len(page) == TRIALS_PER_READ:
                page = events.trials_after(self._engine, known.seq, last, TRIALS_PER_READ)
                for trial in page:
                    self._metrics.count_trial(trial)
                    last = trial.number
            watch(progress)

        return count

    def _allowed_templates(self, job: Job) -> list[Template[Any]] | None:
        if self._only is None:
            return None
        workload = templates.parse_key(job.workload_key)
        serving = templates.templates_for(workload, self._device.limits)
        return [template for template in serving if template.name in self._only]

    def _end(
        self, job: Job, state: Literal["failed", "cancelled"], error: str | None = None
    ) -> str:
        queue.finish(self._engine, job.id, job.attempt, state, error)
        log.info("job_ended", state=state, error=error)
        return state

    def _give_back(self, job: Job) -> None:
        try:
            queue.release(self._engine, job.id, job.attempt)
            log.info("job_released")
        except LeaseLost as lost:
            log.warning("lease_lost", reason=str(lost))
        except DatabaseUnavailable as error:
            log.warning("job_left_to_its_lease", reason=str(error))

    def _beat(self, job_id: str | None) -> None:
        self._listed = True
        workers.beat(
            self._engine,
            self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            device_id=self._device_id,
            version=__version__,
            job_id=job_id,
        )


def _must_have_docstrings() -> None:
    """Raise MissingRuntime if Python runs without docstrings: every job would fail then."""
    if sys.flags.optimize > 1:
        raise MissingRuntime(
            "Python runs without docstrings, which xgboost reads when it is imported",
            "leave out -OO and PYTHONOPTIMIZE=2",
        )
