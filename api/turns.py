"""Limits on how many requests do the same thing at once. The others wait without a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.problems.problems import Problem

RETRY_SECONDS = 5

WRITERS = 8
"""How many orders are written at once. Each waits for SQLite's only writer, in one of the forty
threads that also answer reads."""
WRITER_SECONDS = 30.0
EXPORTS = 2
"""How many logs are exported at once. Each keeps the interpreter busy until all of it is sent."""
EXPORT_SECONDS = 10.0


class Turns:
    """At most ``at_once`` turns at a time. A caller waits for one for ``seconds`` at most.

    ``what`` names them in the error after that time, such as "orders"."""

    def __init__(self, what: str, at_once: int, seconds: float) -> None:
        self._what, self._at_once, self._seconds = what, at_once, seconds
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Keep a turn within the context. Raise Problem (busy, 503) if none is free in time."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            raise Problem(
                "busy",
                f"at most {self._at_once} {self._what} are under way at once, and none ended for "
                f"{self._seconds:g} s; try again in {RETRY_SECONDS} s",
                headers={"Retry-After": str(RETRY_SECONDS)},
            ) from None
        try:
            yield
        finally:
            self._free.release()
