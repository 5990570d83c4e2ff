"""Those who use a service for as long as the soak lasts."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import httpx2

from tests.soak.tally import Tally
from tuner.client.client import Client
from tuner.errors import ServiceUnreachable

PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Site:
    """Where they meet: the service, its keys, and what they tell each other."""

    url: str
    submit_key: str
    read_key: str
    folder: Path
    tally: Tally
    jobs: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    """The last that were ordered."""

    def http(self, key: str | None = None) -> httpx2.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30.0)

    def client(self) -> Client:
        return Client(self.url, key=self.submit_key, cache=self.folder / "cache")


class Actor(Thread):
    """Comes again and again, each time on new connections, until ``over`` is set."""

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
            except Exception as error:  # nobody would see that it came no more
                self.site.tally.went_wrong(f"{self.name}: {type(error).__name__}: {error}")
                self.over.wait(PAUSE_SECONDS)

    @abstractmethod
    def visit(self) -> None:
        """Once; it looks at ``over`` where it takes longer than a few seconds."""

    def rest(self, longest: float) -> None:
        """Up to so many seconds, less where all is over."""
        self.over.wait(self.draw.uniform(0, longest))

    def some_job(self) -> str | None:
        """One of the last, the newest first."""
        known = list(self.site.jobs)
        return known[-1 - min(int(self.draw.expovariate(0.3)), len(known) - 1)] if known else None
