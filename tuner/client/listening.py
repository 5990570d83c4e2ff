"""Listening to a job's events, over a new connection if one breaks, and showing them on a bar."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Self

import httpx2

from db.contract.job import Progress
from tuner.client.answers import Job
from tuner.client.responses import error_from_response, parse, read_content, unexpected_answer
from tuner.errors import ServiceError, ServiceUnreachable

MIN_REQUEST_SECONDS = 1.0
"""The least time that a request within a wait may take, even if the wait is shorter."""
OUTAGE_SECONDS = 30.0
"""How long a service that has answered before may be unreachable: enough to restart it."""
SILENCE_SECONDS = 45.0
"""How long a connection may be silent: the service sends a comment after 15 s of silence."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

log = logging.getLogger("tuner.client")

_OK = 200
TOO_MANY = 429


def may_pass(failure: ServiceError) -> bool:
    """Return whether the same request may succeed a little later."""
    return failure.status in (None, TOO_MANY) or failure.status >= 500


@lru_cache(maxsize=256)
def log_waiting_reason(job: str, waiting: str) -> None:
    """Log why no worker takes a job, once for each job and reason.

    Otherwise a program that waits for the job would wait in silence.
    """
    log.warning("job %s waits: %s", job, waiting)


class JobListener:
    """A listener to the changes of a job after the state ``seen``. Use it in a ``with``.

    A thread reads the stream of events, so that :meth:`next` returns on time whatever the
    connection does. If the connection breaks, the thread pauses and opens another one, which
    continues after the last event received. The pause grows until an event arrives.
    """

    def __init__(self, http: httpx2.Client, url: str, seen: Job) -> None:
        self._http, self._url, self._path = http, url, seen.links.events
        self._job = seen
        self._received: SimpleQueue[httpx2.ServerSentEvent | Exception] = SimpleQueue()
        # The service refuses a number beyond the job's stored trials. The count of those that
        # worked is safe: each of them is stored as a row of this job.
        self._params = {"after": seen.trials.ok}
        self._last_id = ""
        self._heard = time.monotonic()
        self._closed, self._lock = Event(), Lock()
        self._socket: socket.socket | None = None

    def next(self, deadline: float | None) -> Job | None:
        """Wait for the next event and return the job as the event shows it.

        ``deadline`` is on the clock ``time.monotonic()``; return None if it comes first. Raises
        ServiceError if the service refuses, ServiceUnreachable if no service has answered for
        OUTAGE_SECONDS.
        """
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        try:
            received = self._received.get(timeout=left)
        except Empty:
            return None
        if isinstance(received, Exception):
            raise received
        what = f"its event {received.event}"
        if received.event == "state":
            self._job = parse(Job, received.data, _OK, self._url, what)
        else:
            self._job = self._job.with_progress(
                parse(Progress, received.data, _OK, self._url, what)
            )
        return self._job

    def __enter__(self) -> Self:
        Thread(target=self._listen, name="convtune-events", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed.set()
            if self._socket is not None:
                with suppress(OSError):  # this wakes the thread, which closes the socket
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        try:
            while not self._closed.is_set():
                before = self._last_id
                failure = self._read_one_connection()
                if failure is not None and not self._may_pass(failure):
                    raise failure
                if self._last_id != before:
                    pause = FIRST_PAUSE_SECONDS
                self._closed.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        except Exception as error:  # raised by next(), whatever it is
            self._received.put(error)

    def _may_pass(self, failure: ServiceError) -> bool:
        return may_pass(failure) and time.monotonic() - self._heard <= OUTAGE_SECONDS

    def _read_one_connection(self) -> ServiceError | None:
        """Read events until the connection ends.

        Return None if the connection was opened, else the error that prevented it.
        """
        # without it the connection would serve another thread's request after the events, and
        # __exit__ would cut that off
        headers = {"Connection": "close"}
        if self._last_id:
            headers["Last-Event-ID"] = self._last_id
        limits = httpx2.Timeout(self._http.timeout)
        limits.read = SILENCE_SECONDS
        opened = False
        try:
            with self._http.sse(
                self._path, params=self._params, headers=headers, timeout=limits
            ) as source:
                answer = source.response
                if not answer.is_success:
                    return error_from_response(answer, read_content(answer, self._url))
                with self._lock:
                    if self._closed.is_set():
                        return None
                    self._socket = answer.extensions["network_stream"].get_extra_info("socket")
                opened = True
                for event in source:
                    self._last_id = event.id
                    if event.event in {"state", "progress"}:
                        self._received.put(event)
        except httpx2.SSEError as error:
            return unexpected_answer(_OK, self._url, str(error))
        except httpx2.RequestError as error:
            return None if opened else ServiceUnreachable.from_error(self._url, error)
        finally:
            if opened:
                self._heard = time.monotonic()
        return None


def shown_on_a_bar(stack: ExitStack) -> Callable[[Job], None]:
    """Return a function that shows a job on a progress bar, which the stack removes."""
    from tuner.terminal.bar import JobBar  # imports rich, needed only if a bar is shown

    bar = stack.enter_context(JobBar())

    def show(job: Job) -> None:
        bar.show(
            state=job.state,
            requested=job.trials.requested,
            measured=job.trials.measured,
            failed=job.trials.failed,
            best_us=job.best.time_us if job.best else None,
            eta_seconds=job.eta_seconds,
        )

    return show
