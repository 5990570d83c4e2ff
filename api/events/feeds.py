"""What is read for listeners, once for all of them.

One poll of the database serves every job that somebody listens to; only what changed is read
further. Nothing is queued for a listener: each takes what comes after its own place whenever it has
sent what came before, so a slow one holds up to one page of trials and nothing else.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass

import structlog
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy import Engine

from api.schemas.events import BestEvent
from api.schemas.trials import TrialView
from db.read import events
from db.read.events import Snapshot
from templates import parse_key

POLL_SECONDS = 0.5
PAGE = 100
THREADS = 4  # of their own: the routes' forty stay free

_log = structlog.get_logger("api.events.feeds")


@dataclass(frozen=True)
class Happened:
    """A trial as JSON, and the best that it was, if it was one."""

    number: int
    trial: str
    best: str | None


class Feed:
    """One job, for all who listen to it."""

    def __init__(self, engine: Engine, limiter: CapacityLimiter, now: Snapshot) -> None:
        self.now = now
        self.over = False  # no more will come of it: the service stops, or the job was deleted
        self.listeners = 0
        self.mark: object = None
        self._engine, self._limiter = engine, limiter
        self._flops = parse_key(now.job.workload_key).flops
        self._changed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._page: tuple[int, list[Happened]] = (0, [])  # after which number, and what
        self._fastest: tuple[int, float | None] = (-1, None)  # up to which number, and its time

    async def refresh(self) -> None:
        """Read the job again. Raises NotFound, DatabaseUnavailable."""
        async with self._reading:  # of two readings the later one stays
            now = await run_sync(
                events.snapshot, self._engine, self.now.job.id, limiter=self._limiter
            )
        if now != self.now:
            self.now = now
            self._wake()

    def end(self) -> None:
        self.over = True
        self._wake()

    async def later_than(self, seen: Snapshot) -> None:
        """Return once the job is no longer as it was seen, or the feed is over."""
        while self.now is seen and not self.over:
            await self._changed.wait()

    async def after(self, number: int) -> list[Happened]:
        """The next trials, at most a page. Raises DatabaseUnavailable."""
        async with self._reading:
            first, page = self._page
            if not (page and first <= number < page[-1].number):
                page = await run_sync(self._read_page, number, limiter=self._limiter)
                self._page = (number, page)
        return [each for each in page if each.number > number]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _read_page(self, number: int) -> list[Happened]:
        seq = self.now.seq
        last, fastest = self._fastest
        if last != number:
            fastest = events.fastest(self._engine, seq, number)
        page = []
        for trial in events.trials_after(self._engine, seq, number, PAGE):
            time_us, best = trial.time_us, None
            if trial.status == "ok" and time_us and time_us < (fastest or math.inf):
                fastest = time_us
                best = BestEvent.of(trial, time_us, self._flops).model_dump_json()
            page.append(
                Happened(trial.number, TrialView.model_validate(trial).model_dump_json(), best)
            )
            self._fastest = trial.number, fastest
        return page


class Feeds:
    """The feeds of one service, by their jobs; each lives as long as it has listeners."""

    def __init__(self, engine: Engine, poll_seconds: float = POLL_SECONDS) -> None:
        self._engine, self._poll_seconds = engine, poll_seconds
        self._limiter = CapacityLimiter(THREADS)
        self._feeds: dict[int, Feed] = {}
        self._polling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        return sum(feed.listeners for feed in self._feeds.values())

    @asynccontextmanager
    async def listen(self, job_id: str) -> AsyncIterator[Feed]:
        """The job's feed, as new as the database. Raises NotFound, DatabaseUnavailable."""
        now = await run_sync(events.snapshot, self._engine, job_id, limiter=self._limiter)
        feed = self._feeds.get(now.seq)
        if feed is None:
            feed = self._feeds[now.seq] = Feed(self._engine, self._limiter, now)
        feed.listeners += 1
        try:
            await feed.refresh()
            if self._closed:
                feed.end()
            elif self._polling is None or self._polling.done():
                # a context of its own, not the first request's with its id
                self._polling = asyncio.create_task(self._poll(), context=Context())
            yield feed
        finally:
            feed.listeners -= 1
            if feed.listeners == 0:
                self._feeds.pop(now.seq, None)

    def close(self) -> None:
        """End every stream, and those that are still to come."""
        self._closed = True
        for feed in self._feeds.values():
            feed.end()
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        stalled = False
        while self._feeds:
            try:
                await self._look()
                stalled = False
            except Exception as error:  # whatever it was, the next look may be right again
                if not stalled:
                    _log.warning("feeds_stalled", reason=str(error))
                stalled = True
            await asyncio.sleep(self._poll_seconds)

    async def _look(self) -> None:
        asked = dict(self._feeds)
        marks = await run_sync(events.marks, self._engine, list(asked), limiter=self._limiter)
        for seq, feed in asked.items():
            if seq not in marks:
                feed.end()
            elif feed.mark != marks[seq]:
                await feed.refresh()
                feed.mark = marks[seq]
