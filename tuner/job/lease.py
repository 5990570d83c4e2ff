"""A worker's lease on a job. A thread renews it and learns if it is lost or the job cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from db import queue
from db.contract.job import Job
from db.sql.errors import LeaseLost, StorageError
from tuner.process.stopping import check_stopped, checking

log = structlog.get_logger()

HEARTBEAT_SECONDS = 10.0
RETRY_SECONDS = 2.0


class Cancelled(Exception):
    """Raised if a user has cancelled the job."""


class Lease:
    """A context in which a thread renews the lease every ``seconds`` and calls ``beat``.

    If the lease is lost or the job is cancelled, the context's own thread raises LeaseLost or
    Cancelled when it next checks the stop flag. Every wait checks the flag.
    """

    def __init__(
        self,
        engine: Engine,
        job: Job,
        beat: Callable[[], None] = lambda: None,
        seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._engine, self.job, self._beat, self._seconds = engine, job, beat, seconds
        self.silent = False  # whether the last heartbeat failed or waited long for the database
        self._heard: Exception | None = None
        self._raised = False
        self._checking = checking(self._raise_heard)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)

    def check(self) -> None:
        """Raise Cancelled, LeaseLost or Stopped if the job must end. Call this between trials.

        The database is asked each time, so that cancelling does not wait for the next heartbeat.
        """
        check_stopped()
        now = queue.get(self._engine, self.job.id)
        lost = (now.state, now.attempt) != ("running", self.job.attempt)
        self._raised = self._raised or lost or now.cancel_requested
        if lost:
            raise LeaseLost(self.job.id, self.job.attempt)
        if now.cancel_requested:
            raise Cancelled

    def _raise_heard(self) -> None:
        """Raise what the thread has heard, but only once, and not if :meth:`check` has raised: the
        clean-up that follows checks the stop flag, too."""
        if self._heard is not None and not self._raised:
            self._raised = True
            raise self._heard

    def _renew(self) -> None:
        pause = self._seconds
        while not self._ended.wait(pause):
            asked = time.monotonic()
            try:
                cancelled = queue.heartbeat(self._engine, self.job.id, self.job.attempt)
                self._beat()
                self.silent, pause = False, self._seconds
                if cancelled:
                    self._heard = Cancelled()
            except LeaseLost as lost:
                self.silent = self.silent or time.monotonic() - asked > queue.SILENT_SECONDS
                self._heard = lost
                return
            except (StorageError, SQLAlchemyError) as error:
                self.silent = True
                log.warning("heartbeat_failed", job_id=self.job.id, reason=str(error))
                pause = min(RETRY_SECONDS, self._seconds)  # before the lease runs out

    def __enter__(self) -> Lease:
        self._checking.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._checking.__exit__(None, None, None)
