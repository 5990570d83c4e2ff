"""Feeds of jobs: the database is read once for all listeners.

One poll of the database serves every job that has a listener, and only jobs that changed are read
further. Nothing is queued for a listener. After each page of trials, a listener reads the page that
follows its own place. So a slow listener holds at most one page of trials, and nothing else.
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
PAGE = 100  # trials
THREADS = 4  # for the feeds alone, so that the 40 threads of the routes stay free

_log = structlog.get_logger("api.events.feeds")


@dataclass(frozen=True)
class TrialEvents:
    """A trial as JSON, and its ``best`` event as JSON if it was the fastest so far."""

    number: int
    trial: str
    best: str | None


class Feed:
    """One job's state and trials, which all of its listeners share."""

    def __init__(self, engine: Engine, limiter: CapacityLimiter, now: Snapshot) -> None:
        self.snapshot = now
        self.over = False  # True if nothing more comes: the service stops, or the job was deleted
        self.listeners = 0
        self.mark: object = None  # of the last poll; it differs once the job has changed
        self._engine, self._limiter = engine, limiter
        self._flops = parse_key(now.job.workload_key).flops
        self._changed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._page: tuple[int, list[TrialEvents]] = (0, [])  # a number, the trials after it
        self._fastest: tuple[int, float | None] = (-1, None)  # number; fastest up to it

    async def refresh(self) -> bool:
        """Read the job again, wake the listeners if it changed, and return whether it did.

        Raise NotFound, DatabaseUnavailable."""
        async with self._reading:  # one read at a time, so that the latest result stays
            now = await run_sync(
                events.snapshot, self._engine, self.snapshot.job.id, limiter=self._limiter
            )
        changed = now != self.snapshot
        if changed:
            self.snapshot = now
            self._wake_listeners()
        return changed

    def end(self) -> None:
        """Tell all listeners that nothing more comes."""
        self.over = True
        self._wake_listeners()

    async def wait_for_change(self, seen: Snapshot) -> None:
        """Wait until the job differs from ``seen``, or the feed is over."""
        while self.snapshot is seen and not self.over:
            await self._changed.wait()

    async def trials_after(self, number: int) -> list[TrialEvents]:
        """Return the next trials after this number, at most a page. Raise DatabaseUnavailable."""
        async with self._reading:
            first, page = self._page
            if not (page and first <= number < page[-1].number):
                page = await run_sync(self._read_page, number, limiter=self._limiter)
                self._page = (number, page)
        return [each for each in page if each.number > number]

    def _wake_listeners(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _read_page(self, number: int) -> list[TrialEvents]:
        """Read the page after this number, and find which trials were the fastest so far."""
        seq = self.snapshot.seq
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
                TrialEvents(trial.number, TrialView.model_validate(trial).model_dump_json(), best)
            )
            self._fastest = trial.number, fastest
        return page


class Feeds:
    """The feeds of one service, one for each job; a feed lives as long as it has listeners."""

    def __init__(self, engine: Engine, poll_seconds: float = POLL_SECONDS) -> None:
        self._engine, self._poll_seconds = engine, poll_seconds
        self._limiter = CapacityLimiter(THREADS)
        self._feeds: dict[int, Feed] = {}
        self._polling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many event streams are open."""
        return sum(feed.listeners for feed in self._feeds.values())

    @asynccontextmanager
    async def listen(self, job_id: str) -> AsyncIterator[Feed]:
        """Yield the job's feed, up to date. Raise NotFound, DatabaseUnavailable."""
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
                # in its own context: that of the first request would log that request's id
                self._polling = asyncio.create_task(self._poll(), context=Context())
            yield feed
        finally:
            feed.listeners -= 1
            if feed.listeners == 0:
                self._feeds.pop(now.seq, None)

    def close(self) -> None:
        """End every open stream, and each later one as it begins."""
        self._closed = True
        for feed in self._feeds.values():
            feed.end()
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        """Poll every ``poll_seconds`` while there are feeds; log the first of several failures."""
        stalled = False
        while self._feeds:
            try:
                await self._refresh_changed()
                stalled = False
            except Exception as error:  # whatever failed, the next poll may succeed
                if not stalled:
                    _log.warning("feeds_stalled", reason=str(error))
                stalled = True
            await asyncio.sleep(self._poll_seconds)

    async def _refresh_changed(self) -> None:
        """End the feeds of jobs that were deleted, and refresh those of jobs that changed."""
        asked = dict(self._feeds)
        marks = await run_sync(events.marks, self._engine, list(asked), limiter=self._limiter)
        for seq, feed in asked.items():
            if seq not in marks:
                feed.end()
            elif feed.mark != marks[seq]:
                # what was read may be newer than this mark, and change back before the next poll
                feed.mark = None if await feed.refresh() else marks[seq]
