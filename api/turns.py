"""So many at once; whoever comes later waits for a turn, without a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.problems.problems import Problem

RETRY_SECONDS = 5

WRITERS = 8
"""Orders wait for SQLite's only writer, each in one of the forty threads that answer reads too."""
WRITER_SECONDS = 30.0
EXPORTS = 2
"""Logs that are written out at once: each keeps the interpreter busy for as long as it is read."""
EXPORT_SECONDS = 10.0


class Turns:
    """``what`` is named where ``seconds`` have passed without a turn."""

    def __init__(self, what: str, at_once: int, seconds: float) -> None:
        self._what, self._at_once, self._seconds = what, at_once, seconds
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Raises Problem."""
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
