"""The list of all storms of the long chaos suite, each over a database of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.chaos import disk
from tests.chaos.damage import Damage
from tests.chaos.hand import Habits
from tests.chaos.locks import locking
from tests.chaos.service_storm import serve
from tests.chaos.storm import JOBS_A_SECOND, Storm, rage
from tests.chaos.worker_storm import strike
from tests.own_postgres import Server, own_server

ENGINES = ("sqlite", "postgresql")
PAUSED_LEASE_SECONDS = 1.0
CALM_SECONDS = 4.0


@dataclass(frozen=True)
class Counts:
    """How often each blow is struck; MEANING has the help texts of the command line."""

    kills: int = 200
    workers: int = 50
    children: int = 5
    pauses: int = 25
    restarts: int = 100
    services: int = 12
    locks: int = 15
    fillings: int = 5

    MEANING: ClassVar[Mapping[str, str]] = {
        "kills": "SIGKILLs of hands, on each engine",
        "workers": "SIGKILLs of real workers, on each engine",
        "children": "SIGKILLs of processes that real workers started, on each engine",
        "pauses": "of hands, longer than their leases, on each engine",
        "restarts": "of PostgreSQL",
        "services": "SIGKILLs of the service, on each engine",
        "locks": "of SQLite's file, by another process",
        "fillings": "of the disk, on each engine",
    }


@dataclass(frozen=True)
class Named:
    """A storm with a name: the blows that it is asked to strike, and the function that runs it."""

    name: str
    blows: dict[str, int]
    run: Callable[[], Damage]


@dataclass(frozen=True)
class _Place:
    """An empty database for a storm, a folder for its files, and the server if it has its own."""

    url: str
    folder: Path
    server: Server | None


def storms(counts: Counts, seed: int) -> list[Named]:
    """Return all storms: five or six on each engine, one of locks and one of restarts."""
    found = []
    for engine in ENGINES:
        found += [
            # with the lease that workers have
            _hands(engine, "hands killed", {"kill": counts.kills}, Habits(30.0), seed),
            # with a short lease, which a pause outlasts
            _hands(
                engine, "hands paused", {"pause": counts.pauses}, Habits(PAUSED_LEASE_SECONDS), seed
            ),
            _hands(
                engine,
                "clocks wrong by 5 minutes",
                {"kill": max(1, counts.kills // 20), "pause": max(1, counts.pauses // 10)},
                Habits(2.0, clocks=(0.0, 300.0, -300.0)),
                seed,
            ),
            _workers(engine, counts, seed),
            _service(engine, counts, seed),
        ]
        if disk.why_not() is None:
            found.append(_full(engine, counts, seed))
    return [*found, _locked(counts, seed), _restarted(counts, seed)]


def _hands(engine: str, what: str, blows: dict[str, int], habits: Habits, seed: int) -> Named:
    seconds = 0.2 * blows.get("kill", 0) + 1.3 * habits.lease_seconds * blows.get("pause", 0)
    jobs = 1 + round(JOBS_A_SECOND * seconds)

    def run() -> Damage:
        with _place(engine) as place:
            return rage(place.url, place.folder, Storm(blows, habits, seed, jobs))

    return Named(f"{what}, {engine}", blows, run)


def _workers(engine: str, counts: Counts, seed: int) -> Named:
    blows = {
        "kill": counts.workers,
        "pause": max(1, counts.pauses // 10),
        "child": counts.children,
    }

    def run() -> Damage:
        with _place(engine) as place:
            return strike(place.url, place.folder, blows, seed, calm=CALM_SECONDS, hurry=False)

    return Named(f"real workers killed, paused and robbed, {engine}", blows, run)


def _service(engine: str, counts: Counts, seed: int) -> Named:
    blows = {"service killed": counts.services}
    if engine == "sqlite":
        blows |= {"lock": max(1, counts.locks // 3)}

    def run() -> Damage:
        with _place(engine) as place:
            others = {"lock": locking(_file(place), 2.0)} if engine == "sqlite" else {}
            return serve(place.url, place.folder, blows, seed, others)

    return Named(f"the service killed, {engine}", blows, run)


def _full(engine: str, counts: Counts, seed: int) -> Named:
    def run() -> Damage:
        with tempfile.TemporaryDirectory(prefix="convtune-chaos-") as name:
            return disk.fill(engine, Path(name), counts.fillings, seed)

    return Named(f"the disk full, {engine}", {"filling": counts.fillings}, run)


def _locked(counts: Counts, seed: int) -> Named:
    blows = {"lock": counts.locks}

    def run() -> Damage:
        with _place("sqlite") as place:
            storm = Storm(
                blows,
                Habits(2.0, busy_seconds=1.0),
                seed,
                jobs=10 * counts.locks,
                others={"lock": locking(_file(place), 2.0)},
            )
            return rage(place.url, place.folder, storm)

    return Named("the file locked by another process, sqlite", blows, run)


def _restarted(counts: Counts, seed: int) -> Named:
    blows = {"restart": counts.restarts}

    def run() -> Damage:
        with _place("postgresql") as place:
            server = place.server
            assert server is not None
            storm = Storm(
                blows,
                Habits(5.0),
                seed,
                jobs=JOBS_A_SECOND * counts.restarts,
                others={"restart": lambda _: server.restart()},
                longest_calm=0.6,
            )
            return rage(place.url, place.folder, storm)

    return Named("the database restarted, postgresql", blows, run)


def _file(place: _Place) -> str:
    return place.url.removeprefix("sqlite:///")


@contextmanager
def _place(engine: str) -> Iterator[_Place]:
    with tempfile.TemporaryDirectory(prefix="convtune-chaos-") as name:
        folder = Path(name) / "storm"
        folder.mkdir()
        if engine == "sqlite":
            yield _Place(f"sqlite:///{name}/chaos.db", folder, None)
        else:
            with own_server() as server:
                yield _Place(server.url, folder, server)
