"""Limits on concurrent requests of one kind. Requests beyond a limit wait without a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.problems.problems import Problem

RETRY_SECONDS = 5

MAX_WRITES = 8
"""Number of orders that may be written at once. Each order waits for SQLite's write lock in one of
the 40 threads, which also answer reads."""
WRITE_WAIT_SECONDS = 30.0
MAX_EXPORTS = 2
"""Number of logs that may be exported at once. An export keeps the interpreter busy until the whole
log is sent."""
EXPORT_WAIT_SECONDS = 10.0


class ConcurrencyLimit:
    """A semaphore of ``max_concurrent`` slots. A caller waits for a slot for at most ``seconds``.

    ``what`` names the limited requests in the error message, such as "orders"."""

    def __init__(self, what: str, max_concurrent: int, seconds: float) -> None:
        self._what, self._limit, self._seconds = what, max_concurrent, seconds
        self._slots = asyncio.Semaphore(max_concurrent)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Keep a slot within the context. Raise Problem (busy, 503) if no slot is free in time."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise Problem(
                "busy",
                f"at most {self._limit} {self._what} are under way at once, and none ended for "
                f"{self._seconds:g} s; try again in {RETRY_SECONDS} s",
                headers={"Retry-After": str(RETRY_SECONDS)},
            ) from None
        try:
            yield
        finally:
            self._slots.release()
