"""Holding a job: the lease is renewed in the background, its loss and a cancel are noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from db import queue
from db.errors import LeaseLost, StorageError
from db.jobs import Job

log = structlog.get_logger()

HEARTBEAT_SECONDS = 10.0


class Cancelled(Exception):
    """The user cancelled the job."""


class Hold:
    """A context in which a job is held. ``beat`` is called with each heartbeat."""

    def __init__(
        self,
        engine: Engine,
        job: Job,
        beat: Callable[[], None] = lambda: None,
        seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._engine, self.job, self._beat, self._seconds = engine, job, beat, seconds
        self._ended = threading.Event()
        self._cancelled = False
        self._lost: LeaseLost | None = None
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)

    def check(self) -> None:
        """Raises Cancelled or LeaseLost; to be called between trials."""
        if self._lost is not None:
            raise self._lost
        if self._cancelled:
            raise Cancelled

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self._cancelled = queue.heartbeat(self._engine, self.job.id, self.job.attempt)
                self._beat()
            except LeaseLost as lost:
                self._lost = lost
                return
            except (StorageError, SQLAlchemyError) as error:
                # the lease outlasts two failed beats; the next one may succeed
                log.warning("heartbeat_failed", job=self.job.id, error=str(error))

    def __enter__(self) -> Hold:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
