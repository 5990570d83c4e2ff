"""HTTP connections with deadlines, and a limit on how many are open.

uvicorn waits for ever for a first request, for the rest of a request that was begun, and for a
client that reads nothing of its answer. A few thousand such connections take all file descriptors
of a process.
"""

from __future__ import annotations

import asyncio
import resource
from functools import cache
from typing import Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

DEADLINE_SECONDS: dict[str, float] = {"request": 10.0, "body": 60.0}
"""Deadlines. ``request`` runs from the start of the connection, or the end of the last answer, to
the end of a request's headers. ``body`` runs from there to the end of the body."""
STALLED_SECONDS = 60.0
"""Time after which a connection is aborted if its client has read none of the unsent bytes."""
BACKLOG = 64
"""How many connections are accepted at once, before any of them can be refused."""
RESERVED_DESCRIPTORS = 6 * BACKLOG
"""File descriptors that are kept free for a backlog, the database and the log."""
REQUEST_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

Awaited = Literal["request", "body"]


@cache
def max_connections() -> int:
    """Return how many connections may be open.

    It is the process's limit of descriptors less RESERVED_DESCRIPTORS, but at least a quarter of
    the limit. If there is no limit, it is 65,536."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return 1 << 16
    return max(allowed // 4, allowed - RESERVED_DESCRIPTORS)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with deadlines and a limit on connections.

    If a new connection exceeds the limit, the connection that has waited longest is aborted."""

    _awaited: Awaited | None = None
    _awaited_since = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _progress_check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # so that any unsent byte causes a call of pause_writing: nothing else reports unsent bytes
        transport.set_write_buffer_limits(high=0)
        self._set_deadline()
        if len(self.connections) > max_connections():
            self._evict_longest_waiting()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_progress()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._progress_check is not None:
            self._progress_check.cancel()

    def _expect_progress(self) -> None:
        """Set the deadline by which the client has to read more of its answer."""
        unsent = self.transport.get_write_buffer_size()
        self._progress_check = self.loop.call_later(STALLED_SECONDS, self._check_progress, unsent)

    def _check_progress(self, unsent: int) -> None:
        """Abort the connection if its write buffer still has ``unsent`` bytes, or more."""
        if self.transport.get_write_buffer_size() < unsent:
            self._expect_progress()
        else:
            self.transport.abort()

    def _set_deadline(self) -> None:
        """Set the deadline for the next request or body; set none if the client owes neither.

        While the client owes the same as before, its deadline stays as it was."""
        awaited: Awaited | None = None
        if self.cycle is None or self.cycle.response_complete:
            awaited = "request"
        elif self.cycle.more_body:
            awaited = "body"
        if awaited == self._awaited or self.transport.is_closing():
            return
        self._awaited, self._awaited_since = awaited, self.loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
        if awaited is not None:
            self._deadline = self.loop.call_later(DEADLINE_SECONDS[awaited], self._time_out)

    def _time_out(self) -> None:
        """Close the connection, with a 408 unless an answer has begun."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(REQUEST_TIMEOUT)
        self.transport.close()

    def _evict_longest_waiting(self) -> None:
        """If there are too many connections, abort the one that has waited longest.

        It must wait for a request or to be closed; if no connection does, abort this one."""
        there = [
            each for each in self.connections if isinstance(each, BoundedProtocol) and each._is_open
        ]
        if len(there) > max_connections():
            waiting = (
                each for each in there if each._awaited == "request" or each.transport.is_closing()
            )
            min(waiting, key=lambda each: each._awaited_since, default=self).transport.abort()

    @property
    def _is_open(self) -> bool:
        """Whether the connection keeps its descriptor: it is not closed, or has bytes to send."""
        return not self.transport.is_closing() or self.transport.get_write_buffer_size() > 0

    def _cancel_timers(self) -> None:
        for timer in (self._deadline, self._progress_check):
            if timer is not None:
                timer.cancel()
