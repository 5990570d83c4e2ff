"""Run jobs in the tests' own process, with one pool of builders for all of them."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from processes import Database

from db import queue
from db.fleet import devices
from templates.template import Template
from tuner.build.builder import Builder
from tuner.compare.runner import RUN_SECONDS
from tuner.device.device import Device
from tuner.job.job import JobRun
from tuner.job.lease import HEARTBEAT_SECONDS, Lease
from tuner.job.progress import Progress
from tuner.job.publish import Signing
from tuner.library.signing_key import own_key
from tuner.settings import Settings


class Bench:
    """This machine's CPU and its builders; each call of :meth:`run` is one attempt at a job."""

    metaschedule = False

    def __init__(self, device: Device, builder: Builder) -> None:
        self.device, self.builder = device, builder

    def device_id(self, database: Database) -> int:
        return devices.upsert_device(database.engine, self.device.fingerprint()).id

    def run(
        self,
        database: Database,
        job: queue.Job,
        among: Sequence[Template[Any]] | None = None,
        watch: Callable[[Progress], None] = lambda _: None,
        run_seconds: float = RUN_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> queue.Job:
        """Claim the job, run it to its end and return it as it is stored then.

        ``among`` replaces the templates to search. ``watch`` is called with each progress report.
        Whatever the run raises is raised.
        """
        held = queue.claim(database.engine, "bench", ["cpu"], job_id=job.id)
        assert held is not None
        settings = Settings(run_seconds=run_seconds, metaschedule=self.metaschedule)
        with Lease(database.engine, held, seconds=heartbeat_seconds) as lease:
            JobRun(
                database.engine,
                lease,
                self.device,
                self.device_id(database),
                self.builder,
                settings=settings,
                signing=Signing(own_key(settings.signing_key)),
                among=among,
                watch=watch,
            ).run()
        return queue.get(database.engine, job.id)


def cancel_after(measured: int, database: Database, job: queue.Job) -> Callable[[Progress], None]:
    """Return a watch that cancels the job once so many trials are measured."""

    def watch(progress: Progress) -> None:
        if progress.measured == measured:
            queue.cancel(database.engine, job.id)

    return watch


class Clock:
    """Calling a clock returns the seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() - self._start
