"""All actors of a soak at work at once, and the thread that kills worker B."""

from __future__ import annotations

import random
import time
from threading import Event, Thread

from sqlalchemy import func, select

from db.sql.tables import jobs
from db.sql.transaction import reading
from tests.soak.actor import Actor, Site
from tests.soak.installation import Installation
from tests.soak.listeners import Dropper, Stayer, Waiter
from tests.soak.orders import Orderer
from tests.soak.readers import Reader
from tests.soak.strangers import Stranger

DRAIN_SECONDS = 240.0
"""Time for open jobs to end once nobody orders any more.

A job of a killed worker waits for its lease to run out.
"""


class Traffic:
    """The actors, at work from construction until :meth:`end`."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site, self._over = site, Event()
        kinds: tuple[type[Actor], ...] = (Orderer, Reader, Stranger, Dropper, Waiter, Stayer)
        self._actors = [kind(site, seed, self._over) for kind in kinds]
        self._actors.append(Dropper(site, seed + 1, self._over))
        for actor in self._actors:
            actor.start()

    def end(self) -> list[str]:
        """Stop the actors and cancel all open jobs, so that listeners reach their jobs' ends.

        Return the names of the actors that have not ended after DRAIN_SECONDS.
        """
        self._over.set()
        deadline = time.monotonic() + DRAIN_SECONDS
        while any(actor.is_alive() for actor in self._actors) and time.monotonic() < deadline:
            self._cancel_all()
            time.sleep(0.5)
        self._cancel_all()
        return [actor.name for actor in self._actors if actor.is_alive()]

    def _cancel_all(self) -> None:
        with self._site.http(self._site.submit_key) as http:
            for state in ("queued", "running"):
                answer = self._site.tally.ask(http, "GET", f"/jobs?state={state}")
                for job in [] if answer is None else answer.json()["items"]:
                    if not job["cancel_requested"]:
                        path = f"/jobs/{job['id']}/cancel"
                        self._site.tally.ask(http, "POST", path, (202, 409))


class Killer(Thread):
    """A thread that kills worker B with SIGKILL and starts it again, until :meth:`end`.

    The moments are drawn with the seed and 1 s to ``longest`` seconds apart.
    """

    def __init__(self, installation: Installation, seed: int, longest: float) -> None:
        super().__init__(name="killer", daemon=True)
        self.kills = 0
        self._installation, self._longest, self._over = installation, longest, Event()
        self._draw = random.Random(seed)  # noqa: S311  # repeatable

    def run(self) -> None:
        self._installation.start_b()
        while not self._over.wait(self._draw.uniform(1.0, self._longest)):
            self._installation.kill_b()
            self.kills += 1
            self._installation.start_b()

    def end(self) -> None:
        self._over.set()
        self.join()


def open_jobs(installation: Installation) -> int:
    """Return the number of jobs that are queued or running."""
    query = select(func.count()).where(jobs.c.state.in_(("queued", "running")))
    with reading(installation.engine) as connection:
        return int(connection.execute(query).scalar_one())
