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

SECONDS: dict[str, float] = {"request": 10.0, "body": 60.0}
"""How long to wait. ``request``: from the connection's start, or the end of the last answer, to the
end of a request's headers. ``body``: from there to the end of the body."""
STALLED_SECONDS = 60.0
"""How long a client may let the write buffer stay full before its connection is aborted."""
BACKLOG = 64
"""How many connections are accepted at once, before any of them can be refused."""
RESERVED = 6 * BACKLOG
"""File descriptors that are kept for a backlog, for the database and for the log."""
LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

Awaited = Literal["request", "body"]


@cache
def most_connections() -> int:
    """Return how many connections may be open.

    It is the process's limit of descriptors less RESERVED, but at least a quarter of the limit. If
    there is no limit, it is 65,536."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return 1 << 16
    return max(allowed // 4, allowed - RESERVED)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with deadlines and a limit on connections.

    If a new connection exceeds the limit, the one that has waited longest for a request ends."""

    _awaited: Awaited | None = None
    _since = 0.0
    _late: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await()
        if len(self.connections) > most_connections():
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the deadline of a client that reads too little of its answer."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _await(self) -> None:
        """Set the deadline of what the client has to send next: a request, a body or nothing.

        If the same is awaited as before, its deadline stays as it was."""
        awaited: Awaited | None = None
        if self.cycle is None or self.cycle.response_complete:
            awaited = "request"
        elif self.cycle.more_body:
            awaited = "body"
        if awaited == self._awaited or self.transport.is_closing():
            return
        self._awaited, self._since = awaited, self.loop.time()
        if self._late is not None:
            self._late.cancel()
        self._late = None
        if awaited is not None:
            self._late = self.loop.call_later(SECONDS[awaited], self._too_late)

    def _too_late(self) -> None:
        """Close the connection, with a 408 unless an answer has begun."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(LATE)
        self.transport.close()

    def _make_room(self) -> None:
        """Abort the connection that has waited longest for a request, if there are too many."""
        there = [
            each
            for each in self.connections
            if isinstance(each, BoundedProtocol) and not each.transport.is_closing()
        ]
        if len(there) > most_connections():
            waiting = (each for each in there if each._awaited == "request")
            min(waiting, key=lambda each: each._since, default=self).transport.abort()

    def _cancel(self) -> None:
        for timer in (self._late, self._stalled):
            if timer is not None:
                timer.cancel()
