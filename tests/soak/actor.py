"""Base class of the threads that use the service during a soak, and what they share."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import httpx2

from tests.no_tls import NO_TLS
from tests.soak.tally import Tally
from tuner.client.client import Client
from tuner.errors import ServiceUnreachable

PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Site:
    """What all actors share: the service's address, its keys, the tally and the latest jobs."""

    url: str
    submit_key: str
    read_key: str
    folder: Path
    tally: Tally
    jobs: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    """Ids of the latest orders, the newest last."""

    def http(self, key: str | None = None) -> httpx2.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30.0, verify=NO_TLS)

    def client(self) -> Client:
        return Client(self.url, key=self.submit_key, cache=self.folder / "cache")


class Actor(Thread):
    """A thread that visits the service again and again, on new connections, until ``over`` is set.

    A broken connection is counted and the next visit comes after a pause. Any other exception is
    counted as a wrong answer.
    """

    def __init__(self, site: Site, seed: int, over: Event) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.site, self.over = site, over
        self.draw = random.Random(f"{seed} {type(self).__name__}")  # noqa: S311  # a seed repeats

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self.visit()
            except (httpx2.TransportError, httpx2.SSEError, ServiceUnreachable) as error:
                self.site.tally.broke_off(error)
                self.over.wait(PAUSE_SECONDS)
            except Exception as error:  # a thread that ended here would end unnoticed
                self.site.tally.went_wrong(f"{self.name}: {type(error).__name__}: {error}")
                self.over.wait(PAUSE_SECONDS)

    @abstractmethod
    def visit(self) -> None:
        """Make one visit. If it takes longer than a few seconds, look at ``over`` meanwhile."""

    def rest(self, longest: float) -> None:
        """Wait for a random time up to ``longest`` seconds; return at once if ``over`` is set."""
        self.over.wait(self.draw.uniform(0, longest))

    def some_job(self) -> str | None:
        """Return one of the latest jobs at random, newer ones more often; None if there is none."""
        known = list(self.site.jobs)
        return known[-1 - min(int(self.draw.expovariate(0.3)), len(known) - 1)] if known else None
