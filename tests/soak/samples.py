"""Samples of memory, threads and descriptors of an installation, taken every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import psutil

from tests.soak.installation import Installation

MEGABYTE = 1e6


@dataclass(frozen=True)
class Usage:
    """What one process holds; memory is in MB.

    ``connections`` counts its descriptors on the database's WAL, one for each connection.
    ``database_descriptors`` counts those on the database file. SQLite keeps the descriptors of
    closed connections for later ones, so there are as many as connections were ever open at once.
    ``descriptors`` counts all others.
    """

    rss_mb: float
    uss_mb: float
    threads: int
    descriptors: int
    connections: int
    database_descriptors: int

    @property
    def all_descriptors(self) -> int:
        return self.descriptors + self.connections + self.database_descriptors


@dataclass(frozen=True)
class Sample:
    """One look at an installation, ``at`` seconds after the sampler was made.

    The tree is worker A with its descendants. The builder is the oldest descendant, which lives as
    long as the worker; 0 MB if there is none.
    """

    at: float
    api: Usage
    worker: Usage
    tree_rss_mb: float
    tree_pss_mb: float
    builder_rss_mb: float
    descendants: int
    descendants_threads: int
    descendants_descriptors: int
    database_mb: float
    wal_mb: float


def take(installation: Installation, at: float) -> Sample:
    """Take a sample. Raise psutil.NoSuchProcess if service or worker A has ended."""
    worker = psutil.Process(installation.worker_a.pid)
    own, database = worker.memory_full_info(), installation.database
    tree_rss, tree_pss, threads, descriptors, alive = own.rss, own.pss, 0, 0, []
    for child in worker.children(recursive=True):
        try:
            memory = child.memory_full_info()
            counts = child.num_threads(), child.num_fds()
            born = child.create_time()
        except psutil.Error:  # it ended meanwhile
            continue
        tree_rss += memory.rss
        tree_pss += memory.pss
        threads += counts[0]
        descriptors += counts[1]
        alive.append((born, memory.rss))
    return Sample(
        at=round(at, 2),
        api=_usage(psutil.Process(installation.api.pid), database),
        worker=_usage(worker, database),
        tree_rss_mb=tree_rss / MEGABYTE,
        tree_pss_mb=tree_pss / MEGABYTE,
        builder_rss_mb=min(alive)[1] / MEGABYTE if alive else 0.0,
        descendants=len(alive),
        descendants_threads=threads,
        descendants_descriptors=descriptors,
        database_mb=_megabytes(database),
        wal_mb=_megabytes(database.with_name(f"{database.name}-wal")),
    )


def _usage(process: psutil.Process, database: Path) -> Usage:
    memory = process.memory_full_info()
    opened = []
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            opened.append(str(descriptor.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return Usage(
        rss_mb=memory.rss / MEGABYTE,
        uss_mb=memory.uss / MEGABYTE,
        threads=process.num_threads(),
        descriptors=sum(not name.startswith(str(database)) for name in opened),
        connections=opened.count(f"{database}-wal"),
        database_descriptors=opened.count(str(database)),
    )


def _megabytes(path: Path) -> float:
    try:
        return path.stat().st_size / MEGABYTE
    except FileNotFoundError:
        return 0.0


class Sampler(Thread):
    """A thread that takes a sample every ``interval`` seconds, from its start to :meth:`end`.

    ``each`` is called with every sample.
    """

    def __init__(
        self, installation: Installation, interval: float, each: Callable[[Sample], None]
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self._installation, self._interval, self._each = installation, interval, each
        self._ended, self._began = Event(), time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                sample = take(self._installation, self.now)
            except psutil.NoSuchProcess:  # the soak itself raises an error with the reason
                return
            self.samples.append(sample)
            self._each(sample)
            self._ended.wait(self._interval)

    def end(self) -> None:
        self._ended.set()
        self.join()
