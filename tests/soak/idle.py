"""What an idle installation holds: threads, descriptors, connections and child processes.

If nothing leaks, this is the same after any amount of work.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass

import httpx2

from tests.no_tls import NO_TLS
from tests.soak.installation import Installation
from tests.soak.samples import take
from tests.soak.traffic import DRAIN_SECONDS, open_jobs

REST_SECONDS = 11.0
"""The service's thread pool ends a thread that a request finds idle for ten seconds."""
LOOKS = 3


@dataclass(frozen=True)
class Idle:
    """What service, worker A and its descendants hold at rest, as counts.

    Connections are those to the database. A pool keeps some of them, and SQLite keeps some
    descriptors; the judge allows for both.
    """

    api_threads: int
    api_descriptors: int
    api_connections: int
    api_database_descriptors: int
    worker_threads: int
    worker_descriptors: int
    worker_connections: int
    worker_database_descriptors: int
    descendants: int
    descendants_threads: int
    descendants_descriptors: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def drained(installation: Installation) -> None:
    """Wait until no job is open. Raise TimeoutError if jobs do not end."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while open_jobs(installation):
        installation.see_that_it_lives()
        if time.monotonic() > deadline:
            raise TimeoutError(f"jobs are open {DRAIN_SECONDS:g} s after the last order")
        time.sleep(0.2)


def rested(installation: Installation, seconds: float) -> Idle:
    """Return the lowest counts of a few looks, after so many seconds without requests.

    No job may be open, and the last one must have been of a shape that was never tuned: a worker
    keeps a spare process of peers only if its last job has timed peers.
    """
    time.sleep(seconds)
    for _ in range(2):
        with (
            suppress(httpx2.TransportError),
            httpx2.Client(base_url=installation.url, verify=NO_TLS) as http,
        ):
            http.get("/readyz")
    looks = []
    for _ in range(LOOKS):
        time.sleep(0.4)
        sample = take(installation, 0.0)
        looks.append(
            Idle(
                sample.api.threads,
                sample.api.descriptors,
                sample.api.connections,
                sample.api.database_descriptors,
                sample.worker.threads,
                sample.worker.descriptors,
                sample.worker.connections,
                sample.worker.database_descriptors,
                sample.descendants,
                sample.descendants_threads,
                sample.descendants_descriptors,
            )
        )
    return Idle(
        *(min(each) for each in zip(*(look.to_json().values() for look in looks), strict=True))
    )
