"""A client that follows jobs' events and resumes with Last-Event-ID if the stream breaks off."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import httpx2

from tests.no_tls import NO_TLS

SECONDS = 120.0


@dataclass(frozen=True)
class Event:
    id: str
    kind: str
    data: dict[str, Any]


@dataclass
class Heard:
    """All events of one job, and on how many streams they came."""

    job_id: str
    events: list[Event] = field(default_factory=list)
    streams: int = 0
    ended: bool = False

    def gaps(self, trials: int) -> list[str]:
        """Return in words what is wrong with the events of a job that has so many trials.

        Each event must come once, trials in their order from 1, and the last state must be an end.
        """
        found = []
        ids = [event.id for event in self.events]
        if len(set(ids)) != len(ids):
            found.append(f"{self.job_id}: an event came twice")
        numbers = [event.data["number"] for event in self.events if event.kind == "trial"]
        if numbers != list(range(1, trials + 1)):
            found.append(f"{self.job_id}: trials {numbers}, of {trials}")
        states = [event.data["state"] for event in self.events if event.kind == "state"]
        if not self.ended or states[-1:] == [] or states[-1] in ("queued", "running"):
            found.append(f"{self.job_id}: states {states}, and no end")
        return found


class Listener(threading.Thread):
    """A thread that follows one job after the other.

    Ids of jobs come from the queue ``told``; None ends the thread.
    """

    def __init__(self, url: str, number: int) -> None:
        super().__init__(name=f"listener {number}", daemon=True)
        self.told: SimpleQueue[str | None] = SimpleQueue()
        self.heard: list[Heard] = []
        self._client = httpx2.Client(base_url=url, timeout=30, verify=NO_TLS)

    def run(self) -> None:
        with self._client:
            self._follow_all()

    def _follow_all(self) -> None:
        while (job_id := self._newest()) is not None:
            heard = Heard(job_id)
            self.heard.append(heard)
            deadline = time.monotonic() + SECONDS
            while not heard.ended and time.monotonic() < deadline:
                try:
                    self._listen(heard)
                except httpx2.TransportError:
                    time.sleep(0.1)

    def _newest(self) -> str | None:
        """Return the newest id told so far, or None if the thread is to end.

        Older ids are skipped, because their jobs may be over. A None is never skipped.
        """
        job_id = self.told.get()
        while job_id is not None:
            try:
                job_id = self.told.get_nowait()
            except Empty:
                break
        return job_id

    def _listen(self, heard: Heard) -> None:
        headers = {"Last-Event-ID": heard.events[-1].id} if heard.events else {}
        path = f"/jobs/{heard.job_id}/events"
        with self._client.stream("GET", path, headers=headers) as answer:
            heard.streams += 1
            if answer.status_code == 204:
                heard.ended = True
                return
            answer.raise_for_status()
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif "id" in fields:  # only an empty line ends an event
                    event = Event(fields["id"], fields["event"], json.loads(fields["data"]))
                    heard.events.append(event)
                    fields = {}
