"""Actors that follow jobs: by event streams, with and without breaks, and with the client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2

from tests.soak.actor import Actor
from tests.soak.orders import ON_ANOTHER_DEVICE, an_order
from tuner.errors import JobFailed, StillRunning

SILENCE_SECONDS = 45.0
"""Longest silence of a stream; the service sends something at least every 15 s."""
LONGEST_SECONDS = 240.0
"""Longest time for a job to end; it may wait for a killed worker's lease more than once."""


class Events:
    """The events of a job, read on one connection after the other.

    ``trials`` are the numbers of the trials that came; ``ended`` says whether the job has ended.
    """

    def __init__(self, http: httpx2.Client, job: str) -> None:
        self._http, self.job = http, job
        self._last_id = ""
        self.trials: list[int] = []
        self.ended = False

    def read(self) -> Iterator[str]:
        """Yield the kinds of events on a new connection, from where the last one broke off."""
        headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
        limits = httpx2.Timeout(30.0, read=SILENCE_SECONDS)
        with self._http.sse(f"/jobs/{self.job}/events", headers=headers, timeout=limits) as source:
            if source.response.status_code == 204:
                self.ended = True
                return
            source.response.raise_for_status()
            for event in source:
                self._last_id = event.id
                said: dict[str, Any] = json.loads(event.data)
                if event.event == "trial":
                    self.trials.append(said["number"])
                elif event.event == "state":
                    self.ended = said["state"] in ("succeeded", "failed", "cancelled")
                yield event.event


class Dropper(Actor):
    """Listens to a job to its end with breaks: no trial may be missing or come twice.

    It breaks off after a few events and continues after the last one that it got.
    """

    def visit(self) -> None:
        job = self.some_job()
        if job is None:
            self.over.wait(0.5)
            return
        tally, deadline = self.site.tally, time.monotonic() + LONGEST_SECONDS
        with self.site.http() as http:
            events = Events(http, job)
            while not events.ended and time.monotonic() < deadline:
                try:
                    self._some_of(events)
                except httpx2.TransportError as error:
                    tally.broke_off(error)
                    time.sleep(0.5)
                except httpx2.HTTPStatusError as error:
                    tally.answered(error.response.status_code)
                    tally.went_wrong(f"events of {job}: {error}")
                    return
                tally.did("stream opened")
            if not events.ended:
                tally.went_wrong(f"job {job} has not ended after {LONGEST_SECONDS:g} s")
                return
            answer = tally.ask(http, "GET", f"/jobs/{job}/trials?limit=1000")
        there = [] if answer is None else [each["number"] for each in answer.json()["items"]]
        if answer is not None and events.trials != there:
            tally.went_wrong(f"events of {job} brought trials {events.trials}, there are {there}")
        self.rest(1.0)

    def _some_of(self, events: Events) -> None:
        wanted = self.draw.choice((1, 2, 3, 8, 1000))
        with closing(events.read()) as reading:
            for count, _ in enumerate(reading, 1):
                if count >= wanted:
                    return


class Stayer(Actor):
    """Listens on one connection to a job that no worker takes, until the job is cancelled."""

    job: str | None = None

    def visit(self) -> None:
        tally = self.site.tally
        with self.site.http(self.site.submit_key) as http:
            if self.job is None:
                answer = tally.ask(http, "POST", "/jobs", (200, 201), json=ON_ANOTHER_DEVICE)
                self.job = None if answer is None else answer.json()["id"]
                return
            events = Events(http, self.job)
            for _ in events.read():
                pass
            if not self.over.is_set():
                tally.went_wrong("a stream ended though its job had not")


class Waiter(Actor):
    """Orders a job with the Python client, waits for its end, and reads its trials and its best."""

    def visit(self) -> None:
        tally, order = self.site.tally, an_order(self.draw)
        with self.site.client() as client:
            job = client.submit(order.pop("operator"), order.pop("workload"), **order)
            self.site.jobs.append(job.id)
            tally.did("ordered by the client")
            try:
                ended = client.wait(job, timeout=LONGEST_SECONDS)
            except JobFailed:
                tally.did("failed or was cancelled")
                return
            except StillRunning:
                tally.went_wrong(f"job {job.id} has not ended after {LONGEST_SECONDS:g} s")
                return
            numbers = [trial.number for trial in client.trials(ended)]
            if numbers != list(range(1, len(numbers) + 1)):
                tally.went_wrong(f"job {job.id} has trials {numbers}")
            client.best(ended.operator, ended.workload)
        self.rest(3.0)
