"""A storm over real workers: they are killed, stopped and robbed of their children at work."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import Engine, select, update

import templates
from db import queue
from db.contract.order import Baselines, JobFilter
from db.sql.engine import migrate, open_engine
from db.sql.errors import DatabaseUnavailable, JobEnded
from db.sql.tables import UNENDED, jobs, trials
from db.sql.transaction import reading, writing
from tests.acceptance.processes import until
from tests.chaos.account import look_over
from tests.chaos.crew import wait_for_ends
from tests.chaos.damage import Damage
from tests.chaos.real_worker import RealWorker, marked, said
from tests.chaos.storm import drawn

WORKERS = 2
WAITING, WAITING_IN_A_HURRY = 2, 0
"""Number of jobs that wait at any moment, besides those whose worker was killed."""
KEPT, KEPT_IN_A_HURRY = 2, 0
"""Number of open jobs that are finished after the storm; all others are cancelled."""
TRIALS = 12
LEFT_SECONDS = 10.0
LOST = "lease_lost"


def strike(
    url: str, folder: Path, blows: Mapping[str, int], seed: int, *, calm: float, hurry: bool
) -> Damage:
    """Run a storm over two real workers on a new database, and return the damage.

    ``kill`` and ``pause`` hit a worker, ``child`` a process that a worker started. A kill comes up
    to ``calm`` seconds after its worker has started to take jobs. The storm ends the lease of a
    paused worker's job, so that a pause need not last longer than 30 s. With ``hurry``, it also
    ends the lease of a killed worker's job, and there is one job at a time, which times no peers.
    """
    engine = open_engine(url)
    migrate(engine)
    draw = random.Random(seed)  # noqa: S311  # repeatable
    crew = _Workers(engine, url, folder, calm, hurry)
    blow_of = {"kill": crew.kill, "pause": crew.pause, "child": crew.kill_child}
    damage = Damage(blows=dict.fromkeys(blows, 0))
    try:
        until(lambda: _any_trial(engine))
        for blow in drawn(draw, blows):
            crew.feed()
            blow_of[blow](draw)
            damage.blows[blow] += 1
        _cancel_all_but(engine, KEPT_IN_A_HURRY if hurry else KEPT)
        wait_for_ends(engine, 90)
        crew.settle()
    finally:
        crew.stop()
    damage.orphans = len(_until_gone(crew.mark))
    damage.left = len(list(crew.temporary.iterdir()))
    look_over(engine, damage)
    _hold_against(engine, said(folder), damage)
    engine.dispose()
    return damage


class _Workers:
    def __init__(self, engine: Engine, url: str, folder: Path, calm: float, hurry: bool) -> None:
        self._engine, self._url, self._folder = engine, url, folder
        self._calm, self._hurry = calm, hurry
        self.mark, self.temporary = uuid.uuid4().hex, folder / "temporary"
        self.temporary.mkdir()
        self._started = self._ordered = 0
        self.feed()
        self._workers = [self._start() for _ in range(WORKERS)]

    def feed(self) -> None:
        """Order jobs until enough of them wait and at least one is open."""
        with reading(self._engine) as connection:
            states = Counter(connection.execute(select(jobs.c.state).where(UNENDED)).scalars())
        wanted = WAITING_IN_A_HURRY if self._hurry else WAITING
        missing = max(wanted - states["queued"], 1 - states.total())
        for _ in range(missing):
            _order(self._engine, 64 + self._ordered, "none" if self._hurry else "all")
            self._ordered += 1

    def kill(self, draw: random.Random) -> None:
        """Kill the worker that has lived longest, at a random moment once it takes jobs."""
        worker = self._workers.pop(0)
        until(worker.at_work)
        time.sleep(draw.uniform(0, self._calm))
        worker.kill()
        if self._hurry:
            _run_out(self._engine, worker)
        self._workers.append(self._start())

    def pause(self, draw: random.Random) -> None:
        """Freeze a worker that holds a job until another has claimed the job; then thaw it.

        Return once the thawed worker has logged that it lost its lease.
        """

        def frozen() -> tuple[RealWorker, str, int] | None:
            self.feed()
            time.sleep(draw.uniform(0, 0.5))
            holders = self._holders()
            if not holders:
                return None
            worker = draw.choice(holders)
            worker.freeze()
            held = _run_out(self._engine, worker)
            if held is None:  # the worker has just ended its job
                worker.thaw()
                return None
            return worker, *held

        found = until(frozen)
        assert found is not None
        worker, job_id, attempt = found

        def taken() -> bool:
            job = queue.get(self._engine, job_id)
            return job.attempt > attempt or job.ended  # ended: it was the last attempt

        until(taken)
        before = worker.log.count(LOST)
        worker.thaw()
        until(lambda: worker.log.count(LOST) > before)

    def kill_child(self, draw: random.Random) -> None:
        """Kill a random child process, one that builds or measures, of any worker."""

        def killed() -> bool:
            self.feed()
            time.sleep(draw.uniform(0, 0.5))
            children = [child for each in self._workers for child in each.children()]
            with suppress(psutil.NoSuchProcess):  # the child has just ended by itself
                if children:
                    draw.choice(children).kill()
                    return True
            return False

        until(killed)

    def settle(self) -> None:
        """Wait until all workers take jobs.

        Only then has each of them removed the temporary files of killed workers.
        """
        for worker in self._workers:
            until(worker.at_work)

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    def _holders(self) -> list[RealWorker]:
        """Return the workers that hold a job."""
        running = queue.list_jobs(self._engine, JobFilter(state="running")).items
        names = [str(job.worker) for job in running]
        return [each for each in self._workers if any(f"-{each.pid}-" in name for name in names)]

    def _start(self) -> RealWorker:
        self._started += 1
        log = self._folder / f"log-{self._started}"
        return RealWorker(self._url, self.temporary, log, self.mark)


def _order(engine: Engine, length: int, baselines: Baselines) -> None:
    workload = templates.operator("conv1d").workload.model_validate({"M": length, "N": 8})
    order = queue.JobOrder(
        operator="conv1d",
        workload_key=workload.key,
        workload=workload.model_dump(),
        target="cpu",
        trials=TRIALS,
        search="random",
        on_existing="retune",
        seed=1,
        baselines=baselines,
    )
    queue.submit(engine, order)


def _run_out(engine: Engine, worker: RealWorker) -> tuple[str, int] | None:
    """End the lease of the worker's job now; return the job's id and its attempt.

    Return None if the worker has no job or was stopped while it was writing.
    """
    try:
        return _run_out_now(engine, worker)
    except DatabaseUnavailable:
        return None


def _run_out_now(engine: Engine, worker: RealWorker) -> tuple[str, int] | None:
    with writing(engine) as connection:
        query = select(jobs.c.seq, jobs.c.id, jobs.c.attempt).where(
            jobs.c.state == "running", jobs.c.worker.contains(f"-{worker.pid}-")
        )
        row = connection.execute(query.with_for_update(skip_locked=True)).first()
        if row is None:
            return None
        connection.execute(update(jobs).where(jobs.c.seq == row.seq).values(lease_expires_at=0.0))
    return row.id, row.attempt


def _any_trial(engine: Engine) -> bool:
    with reading(engine) as connection:
        return connection.execute(select(trials.c.id).limit(1)).first() is not None


def _cancel_all_but(engine: Engine, kept: int) -> None:
    with reading(engine) as connection:
        open_ = connection.execute(select(jobs.c.id).where(UNENDED).order_by(jobs.c.seq)).scalars()
        ids = list(open_)
    for job_id in ids[kept:]:
        try:
            queue.cancel(engine, job_id)
        except JobEnded:
            continue


def _until_gone(mark: str) -> list[int]:
    deadline = time.monotonic() + LEFT_SECONDS
    while (found := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _hold_against(engine: Engine, log: list[dict[str, Any]], damage: Damage) -> None:
    """Add to ``damage`` where the database differs from what the workers logged as confirmed."""
    with reading(engine) as connection:
        query = select(
            jobs.c.id, trials.c.number, trials.c.status, trials.c.time_us, trials.c.created_at
        ).join(jobs, jobs.c.seq == trials.c.job_seq)
        stored = {(row.id, row.number): row for row in connection.execute(query)}
        states = {row.id: row.state for row in connection.execute(select(jobs.c.id, jobs.c.state))}
    begun = {
        (line["job_id"], line["attempt"]): _seconds(line)
        for line in log
        if line["event"] == "job_started"
    }
    counts: Counter[str] = Counter()
    for line in log:
        event = line["event"]
        if event == "trial":
            row = stored.get((line["job_id"], line["number"]))
            if row is None or (row.status, row.time_us) != (line["status"], line["time_us"]):
                damage.lost += 1
                continue
            damage.stale += any(
                job_id == row.id and attempt > line["attempt"] and row.created_at > since
                for (job_id, attempt), since in begun.items()
            )
        elif event == "job_succeeded":
            damage.lost += states[line["job_id"]] != "succeeded"
        elif event == "job_crashed" or event.startswith("Traceback"):
            damage.crashed += 1
            damage.inconsistent.append(str(line))
        elif event in (LOST, "job_left_to_its_lease", "database_unavailable"):
            counts[event] += 1
    damage.refused = counts.total()
    damage.reasons = sorted(counts)
    damage.done = {"attempts": len(begun)}


def _seconds(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()
