"""Route that streams a job's events as they happen (server-sent events)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated
from zlib import crc32

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api.access.access import Access, Caller
from api.events.event_id import PATTERN, EventId
from api.events.feeds import POLL_SECONDS, Feed, Feeds
from api.problems.problems import Problem, problem_responses
from api.route_helpers.strict_query import StrictQuery
from api.schemas.events import EventsQuery, ProgressEvent
from api.schemas.jobs import JobView
from db.read.events import Snapshot
from db.sql.errors import DatabaseUnavailable

router = APIRouter(tags=["jobs"], dependencies=[StrictQuery])


@dataclass(frozen=True)
class Listener:
    """A listener to a job."""

    feed: Feed
    at: EventId  # its place: what it was sent so far
    headers_only: bool  # the request is HEAD
    may_continue: Callable[[], Awaitable[bool]]  # whether its key is still valid


async def _listener(
    job_id: str,
    request: Request,
    response: Response,
    query: Annotated[EventsQuery, Query()],
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="id of the last event received; the stream continues after it",
            json_schema_extra={"pattern": PATTERN},
        ),
    ] = None,
) -> AsyncIterator[Listener]:
    """Yield the listener. Raise NotFound, or Problem if its place is not in the job's stream."""
    feeds: Feeds = request.app.state.feeds
    at = EventId.parse(last_event_id) if last_event_id else EventId(query.after)
    async with feeds.listen(job_id) as feed:
        now = feed.snapshot
        if at.trial > now.last or at.stage > now.stage:
            raise Problem(
                "invalid-event-id",
                f"the job has {now.last} trials and is in its stage {now.stage}, but the stream "
                f"was asked to continue after {at}; leave out Last-Event-ID and after",
            )
        if now.job.ended and at.stage == now.stage:
            response.status_code = 204  # tells an EventSource not to reconnect
        yield Listener(
            feed, at, getattr(request.state, "headers_only", False), _permission_check(request)
        )


def _permission_check(request: Request) -> Callable[[], Awaitable[bool]]:
    """Return a function that tells whether the caller may still read."""
    access: Access = request.app.state.access
    caller: Caller | None = getattr(request.state, "caller", None)  # None if no key is asked for

    async def may_continue() -> bool:
        try:
            return caller is None or await access.may_keep_reading(caller)
        except DatabaseUnavailable:
            return True  # nothing can be read, so nothing leaks

    return may_continue


@router.get(
    "/jobs/{job_id}/events",
    summary="A job's events as they happen, until it ends",
    response_class=EventSourceResponse,
    responses={204: {"description": "All events have been sent"}, **problem_responses(400, 404)},
)
async def job_events(
    listener: Annotated[Listener, Depends(_listener)],
) -> AsyncIterator[ServerSentEvent]:
    """Stream a job's events until the job ends.

    The events are `state` (the job) when its state changes, or why it waits, `trial` for each trial
    in order, `best` after a trial that was faster than all before, and `progress` when the job's
    counts change. A `state` or `progress` that is outdated before it could be sent is left out.

    The last event is the `state` in which the job ended. If a stream breaks off, send the id of the
    last event as `Last-Event-ID`, and the new stream continues after it. A comment is sent after
    15 s of silence."""
    if listener.headers_only:
        return
    feed, at = listener.feed, listener.at
    waiting = feed.snapshot.waiting
    while not feed.over and await listener.may_continue():
        now = feed.snapshot
        if (at.stage < now.stage or now.waiting != waiting) and not now.job.ended:
            at, waiting = replace(at, stage=now.stage), now.waiting
            yield _state_event(now, at)
        async for place, event in _history(feed, at, now.last):
            at = place
            yield event
        if feed.over:
            return
        progress = ProgressEvent.of(now.job, now.device).model_dump_json()
        checksum = f"{crc32(progress.encode()):08x}"
        if at.progress != checksum:
            at = replace(at, progress=checksum)
            yield ServerSentEvent(raw_data=progress, event="progress", id=str(at))
        if now.job.ended:
            if at.stage < now.stage:
                yield _state_event(now, replace(at, stage=now.stage))
            return
        await feed.wait_for_change(now)


def _state_event(now: Snapshot, at: EventId) -> ServerSentEvent:
    job = JobView.of(now.job, now.device, now.waiting)
    return ServerSentEvent(raw_data=job.model_dump_json(), event="state", id=str(at))


async def _history(
    feed: Feed, at: EventId, last: int
) -> AsyncIterator[tuple[EventId, ServerSentEvent]]:
    """Yield the trials and bests up to trial number ``last``, each with the place after it."""
    while not feed.over and (at.trial < last or not at.best_sent):
        try:
            page = await feed.trials_after(at.trial if at.best_sent else at.trial - 1)
        except DatabaseUnavailable:
            await asyncio.sleep(POLL_SECONDS)
            continue
        if not page:  # the trials were pruned meanwhile
            return
        for each in page:
            if each.number > last:
                return
            if at.trial < each.number:
                at = replace(at, trial=each.number, best_sent=each.best is None)
                yield at, ServerSentEvent(raw_data=each.trial, event="trial", id=str(at))
            if not at.best_sent:
                at = replace(at, best_sent=True)
                if each.best is not None:
                    yield at, ServerSentEvent(raw_data=each.best, event="best", id=str(at))
