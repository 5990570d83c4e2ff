"""The event stream is complete and in order, whatever the connection and other listeners do."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import accumulate, pairwise
from typing import Any

import fastapi.routing
import fastapi.sse
import httpx2
import pytest
from fastapi import FastAPI
from live import Event, Stream, served
from problem_shape import problem
from service_rows import GPU, new_trial, running, tuned
from sqlalchemy import Engine, delete

from api.events.event_id import EventId
from api.events.feeds import PAGE, Feeds
from api.routes.events import _history
from db import queue
from db.fleet import devices
from db.read import events
from db.results import trials
from db.sql import tables
from db.sql.engine import writing
from db.sql.errors import DatabaseUnavailable
from db.sql.tables import jobs
from templates import operator

SHAPE = {"M": 100, "N": 3}


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    """URL of a service that polls the database for events every 20 ms."""
    with served(app) as found:
        app.state.feeds = Feeds(app.state.engine, poll_seconds=0.02)
        yield found


@pytest.fixture
def engine(app: FastAPI, url: str) -> Engine:
    opened: Engine = app.state.engine
    return opened


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def order(engine: Engine) -> queue.Job:
    workload = operator("conv1d").workload.model_validate(SHAPE)
    values = {"target": "auto", "trials": 64, "search": "xgb", "on_existing": "retune"}
    new = queue.JobOrder.of(workload, **values)
    return queue.submit(engine, new)[0]


class Tuning:
    """The writes of a worker to a job's rows, one method for each step."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.device = devices.upsert_device(engine, GPU)
        self.job = running(engine, "conv1d", SHAPE, trials=1000)
        self.times: list[float | None] = []

    def measure(self, times: list[float | None], **changes: Any) -> None:
        new = [
            new_trial(
                self.device,
                number,
                time_us=time_us,
                status="build_error" if time_us is None else "ok",
                **changes,
            )
            for number, time_us in enumerate(times, len(self.times) + 1)
        ]
        trials.add(self.engine, self.job.id, self.job.attempt, new)
        self.times += times
        ok = [time_us for time_us in self.times if time_us is not None]
        best = {"config": {}, "time_us": min(ok), "gflops": 1.0} if ok else None
        queue.progress(
            self.engine,
            self.job.id,
            self.job.attempt,
            measured=len(self.times),
            ok=len(ok),
            failed=len(self.times) - len(ok),
            best=best,
            eta_seconds=1.0,
            device_id=self.device.id,
        )

    def give_back_and_claim(self) -> None:
        queue.release(self.engine, self.job.id, self.job.attempt)
        claimed = queue.claim(self.engine, "worker-2", ["cuda"])
        assert claimed is not None
        self.job = claimed

    def end(self) -> None:
        queue.finish(self.engine, self.job.id, self.job.attempt, "succeeded")

    def bests(self) -> list[int]:
        """Return the numbers of the trials that were faster than all before them."""
        times = [float("inf"), *(float("inf") if t is None else t for t in self.times)]
        lows = list(accumulate(times, min))
        return [number for number, (old, new) in enumerate(pairwise(lows), 1) if new < old]


def complete(got: list[Event], tuning: Tuning) -> None:
    """Assert that the events report everything once and in order, up to the job's end."""
    told = [(event.kind, event.data["number"]) for event in got if event.kind in {"trial", "best"}]
    bests = tuning.bests()
    assert told == [
        (kind, number)
        for number in range(1, len(tuning.times) + 1)
        for kind in ("trial", "best")
        if kind == "trial" or number in bests
    ]
    assert len({event.id for event in got}) == len(got)
    states = [event.data for event in got if event.kind == "state"]
    attempts = [(state["attempt"], state["state"] == "running") for state in states]
    assert attempts == sorted(attempts, key=lambda each: each[0])
    assert [state["state"] for state in states if state["finished_at"]] == ["succeeded"]
    progress = [event.data["trials"]["measured"] for event in got if event.kind == "progress"]
    assert progress == sorted(progress)
    assert progress[-1] == len(tuning.times)
    assert got[-1].data == states[-1]


@pytest.mark.parametrize("seed", range(3))
def test_thousand_trials_arrive_once_over_broken_connections(
    url: str, engine: Engine, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311
    tuning = Tuning(engine)

    def work() -> None:
        while len(tuning.times) < 1000:
            count = min(chance.choice([1, 2, 30, 150]), 1000 - len(tuning.times))
            level = 2000.0 - len(tuning.times)
            tuning.measure(
                [
                    None if chance.random() < 0.1 else level * chance.uniform(0.5, 1)
                    for _ in range(count)
                ]
            )
            if chance.random() < 0.1:
                tuning.give_back_and_claim()
        tuning.end()

    worker = threading.Thread(target=work)
    worker.start()
    breaks = random.Random(seed + 100)  # noqa: S311
    got: list[Event] = []
    while not (got and got[-1].kind == "state" and got[-1].data["finished_at"]):
        with Stream(url, tuning.job.id, got[-1].id if got else None) as stream:
            assert stream.status == 200
            patience = breaks.choice([0, 1, 2, 3, 10, 100])
            for count, event in enumerate(stream):
                if count == patience:
                    break  # this event was sent, but is lost with the connection
                got.append(event)
    worker.join()
    complete(got, tuning)


def test_listener_that_does_not_read_delays_no_other_listener(
    app: FastAPI, url: str, engine: Engine
) -> None:
    """A listener that does not read delays no other and misses nothing itself."""
    tuning = Tuning(engine)
    with Stream(url, tuning.job.id) as awake, Stream(url, tuning.job.id) as asleep:
        for _ in range(10):  # far more bytes than the sockets' buffers hold
            tuning.measure([1000.0 - len(tuning.times)] * 60, error="x" * 20_000)
        tuning.end()
        complete(list(awake), tuning)
        feeds: Feeds = app.state.feeds
        assert feeds.listeners >= 1
        complete(list(asleep), tuning)
    until(lambda: feeds.listeners == 0)


def test_stream_of_an_ended_job_has_all_events_and_resumes_with_204(
    url: str, engine: Engine
) -> None:
    """The stream of an ended job has all its events; a resumed one gets 204."""
    tuning = Tuning(engine)
    tuning.measure([3.0] * (2 * PAGE) + [None, 2.0, 2.5])
    tuning.end()
    with closing(Stream(url, tuning.job.id)) as stream:
        got = list(stream)
    complete(got, tuning)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-cache"
    with httpx2.Client(base_url=url) as client:
        shown = client.get(f"/jobs/{tuning.job.id}").json()
        assert got[-1].data == shown
        assert got[-2].data == {name: shown[name] for name in got[-2].data}
        log = client.get(f"/jobs/{tuning.job.id}/trials?limit=1000").json()["items"]
        assert [event.data for event in got if event.kind == "trial"] == log
        path = f"/jobs/{tuning.job.id}/events"
        after = client.get(path, headers={"Last-Event-ID": got[-1].id})
        assert (after.status_code, after.content) == (204, b"")
        assert client.head(path).status_code == 200
    with Stream(url, tuning.job.id, query=f"?after={2 * PAGE}") as stream:
        told = [event.data["number"] for event in stream if event.kind in {"trial", "best"}]
    assert told == [2 * PAGE + 1, 2 * PAGE + 2, 2 * PAGE + 2, 2 * PAGE + 3]


def test_listener_gets_each_change_of_state_as_it_happens(url: str, engine: Engine) -> None:
    job = order(engine)
    with closing(Stream(url, job.id)) as stream:
        got = iter(stream)
        assert [next(got).kind for _ in range(2)] == ["state", "progress"]
        claimed = queue.claim(engine, "worker-1", ["cuda"])
        assert claimed is not None
        event = next(got)
        assert (event.kind, event.data["state"]) == ("state", "running")
        queue.cancel(engine, job.id)
        event = next(got)
        assert (event.data["state"], event.data["cancel_requested"]) == ("running", True)
        queue.release(engine, job.id, claimed.attempt)
        assert [event.data["state"] for event in got] == ["cancelled"]


def test_silent_stream_sends_a_ping_every_15_seconds(
    url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fastapi.sse._PING_INTERVAL == 15.0
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.05)
    job = order(engine)
    with Stream(url, job.id) as stream:
        threading.Timer(0.5, queue.cancel, (engine, job.id)).start()
        list(stream)
        assert ": ping" in stream.comments


def test_head_of_an_open_jobs_events_is_answered_at_once(url: str, engine: Engine) -> None:
    job = order(engine)
    answer = httpx2.head(f"{url}/jobs/{job.id}/events", timeout=5)
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_listener_that_leaves_is_forgotten(app: FastAPI, url: str, engine: Engine) -> None:
    job = order(engine)
    feeds: Feeds = app.state.feeds
    streams = [Stream(url, job.id) for _ in range(5)]
    until(lambda: feeds.listeners == 5)
    for stream in streams:
        next(iter(stream))
        stream.close()
    until(lambda: feeds.listeners == 0)


def test_a_deleted_job_ends_its_streams(url: str, engine: Engine) -> None:
    job = order(engine)
    with Stream(url, job.id) as stream:
        got = iter(stream)
        next(got)
        with writing(engine) as connection:
            connection.execute(delete(jobs).where(jobs.c.id == job.id))
        assert [event.kind for event in got] == ["progress"]


def test_stream_survives_a_short_outage_of_the_database(
    url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def away(name: str) -> None:
        call = getattr(events, name)

        def answer(*arguments: Any) -> Any:
            asked.append(name)
            if asked.count(name) <= 2:
                raise DatabaseUnavailable("it", "is away")
            return call(*arguments)

        monkeypatch.setattr(events, name, answer)

    tuning = Tuning(engine)
    with Stream(url, tuning.job.id) as stream:
        got = iter(stream)
        first = [next(got)]
        away("marks")
        away("trials_after")
        monkeypatch.setattr("api.routes.events.POLL_SECONDS", 0.01)
        tuning.measure([2.0, 1.0])
        tuning.end()
        complete(first + list(got), tuning)
    assert {"marks", "trials_after"} <= set(asked)


@pytest.mark.parametrize(
    "sent",
    [
        "x",
        "17",
        "1.1.1.0",
        "1.2.1.00000000",
        "1.1.1.0000000G",
        "-1.1.1.00000000",
        "१.1.1.00000000",
        "0.0.0.00000000",
    ],
)
def test_invalid_last_event_id_gets_400(url: str, engine: Engine, sent: str) -> None:
    job = order(engine)
    headers = {"Last-Event-ID": sent.encode()}
    answer = httpx2.get(f"{url}/jobs/{job.id}/events", headers=headers)
    assert "Last-Event-ID must be" in problem(answer, 400, "invalid-event-id")["detail"]


@pytest.mark.parametrize("sent", ["3.1.1.00000000", "2.1.4.00000000"])
def test_last_event_id_of_another_job_gets_400(url: str, engine: Engine, sent: str) -> None:
    job = tuned(engine, "conv1d", SHAPE)
    answer = httpx2.get(f"{url}/jobs/{job.id}/events", headers={"Last-Event-ID": sent})
    assert "2 trials" in problem(answer, 400, "invalid-event-id")["detail"]


def test_stream_skips_trials_that_are_pruned_before_they_are_sent(engine: Engine) -> None:
    tuning = Tuning(engine)
    tuning.measure([3.0, 2.0, 1.0])

    async def sent() -> list[str | None]:
        async with Feeds(engine).listen(tuning.job.id) as feed:
            with writing(engine) as connection:
                connection.execute(delete(tables.trials))
            return [event.event async for _, event in _history(feed, EventId(), feed.snapshot.last)]

    assert asyncio.run(asyncio.wait_for(sent(), 10)) == []


def test_stream_of_an_unknown_job_or_with_an_invalid_start_is_refused(
    url: str, engine: Engine
) -> None:
    for unknown in ("0" * 32, "nothing"):
        problem(httpx2.get(f"{url}/jobs/{unknown}/events"), 404, "unknown-job")
    job = order(engine)
    path = f"{url}/jobs/{job.id}/events"
    problem(httpx2.get(f"{path}?after=-1"), 422, "invalid-request", "after")
    problem(httpx2.get(f"{path}?after=1"), 400, "invalid-event-id")


def test_stream_reports_a_worker_that_gives_no_sign_of_life(url: str, engine: Engine) -> None:
    job = order(engine)
    claimed = queue.claim(engine, "worker-1", ["cuda"])
    assert claimed is not None
    with closing(Stream(url, job.id)) as stream:
        got = iter(stream)
        assert [next(got).kind for _ in range(2)] == ["state", "progress"]
        queue.heartbeat(engine, job.id, claimed.attempt, lease_seconds=-1)
        event = next(got)
        assert (event.kind, event.data["state"]) == ("state", "running")
        assert event.data["waiting"].startswith("its worker worker-1 gives no sign of life; ")
        queue.heartbeat(engine, job.id, claimed.attempt)
        assert next(got).data["waiting"] is None
        queue.cancel(engine, job.id)
        queue.finish(engine, job.id, claimed.attempt, "cancelled")
        assert list(got)[-1].data["state"] == "cancelled"


@pytest.mark.parametrize("query", ["aftr=4", "after=0&after=4", "after=4&x=1"])
def test_stream_refuses_an_unknown_or_repeated_query(url: str, engine: Engine, query: str) -> None:
    answer = httpx2.get(f"{url}/jobs/{order(engine).id}/events?{query}", timeout=5)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] in query
