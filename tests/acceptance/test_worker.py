"""A worker and jobs that can't be run, signals between claim and run, and its metrics."""

import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext

import httpx2
import pytest
from processes import Database
from runs import Bench, cancel_after
from structlog.testing import capture_logs

import templates
from db import queue
from db.contract.order import JobOrder
from db.fleet import workers
from db.records import imports
from db.records.listed import IMPORTED, ListedConfig, ListedOrder
from tuner.errors import TunerError
from tuner.job.progress import Progress
from tuner.process.stopping import Stopped, interruptible, stop_on_signals
from tuner.settings import Settings
from tuner.worker.in_process import run_or_watch
from tuner.worker.worker import TRIALS_PER_READ, Worker

SHAPE = {"M": 512, "N": 8}


class StoppedAtOnce(Worker):
    """A worker that gets the signal ``by`` after it has claimed a job and before it runs it."""

    by = signal.SIGTERM

    def claim(self, kind: str, job_id: str | None = None) -> queue.Job | None:
        job = super().claim(kind, job_id)
        signal.raise_signal(self.by)
        return job


@pytest.fixture
def worker(database: Database, bench: Bench) -> Iterator[Worker]:
    made = Worker(database.engine, bench.device, Settings(build_workers=1))
    yield made
    made.close()


def test_a_job_that_can_not_be_run_fails_with_its_reason(
    database: Database, worker: Worker
) -> None:
    job = database.submit(SHAPE, search="annealing")  # another release may know this strategy
    with capture_logs() as said:
        worker.run(once=True)
    ended = queue.get(database.engine, job.id)
    reason = (
        "search: unknown search strategy 'annealing'; known are: evolutionary, grid, metaschedule, "
        "predicted, random, xgb"
    )
    assert (ended.state, ended.error) == ("failed", reason)
    assert [line["event"] for line in said] == ["worker_started", "job_started", "job_ended"]
    assert said[-1]["error"] == reason


def test_a_bug_fails_the_job_and_not_the_worker(database: Database, worker: Worker) -> None:
    job = database.submit(SHAPE, seed=-1)  # NumPy raises ValueError
    with capture_logs() as said:
        worker.run(once=True)
    ended = queue.get(database.engine, job.id)
    assert ended.state == "failed"
    assert ended.error is not None
    assert ended.error.startswith("ValueError: ")
    assert "job_crashed" in [line["event"] for line in said]


def test_a_job_for_another_kind_of_device_is_left_alone(database: Database, worker: Worker) -> None:
    job = database.submit(SHAPE, target="cuda")
    worker.run(once=True)
    assert queue.get(database.engine, job.id).state == "queued"


def test_worker_stopped_between_claim_and_run_gives_the_job_back(
    database: Database, bench: Bench, handlers: None
) -> None:
    stop_on_signals()
    others = database.submit({"M": 64, "N": 8})
    assert queue.claim(database.engine, "other", ["cpu"], job_id=others.id) is not None
    job = database.submit(SHAPE)
    worker = StoppedAtOnce(database.engine, bench.device, Settings(build_workers=1))
    with pytest.raises(Stopped):
        worker.run()
    waiting = queue.get(database.engine, job.id)
    assert (waiting.state, waiting.attempt, waiting.released) == ("queued", 1, 1)
    assert queue.get(database.engine, others.id).worker == "other"
    assert workers.list_workers(database.engine) == []


@pytest.mark.parametrize(
    ("by", "within", "raised"),
    [
        (signal.SIGTERM, nullcontext, Stopped),
        (signal.SIGINT, interruptible, KeyboardInterrupt),
    ],
)
def test_process_of_a_single_job_stopped_before_the_run_gives_it_back(
    database: Database,
    bench: Bench,
    handlers: None,
    by: signal.Signals,
    within: Callable[[], AbstractContextManager[None]],
    raised: type[BaseException],
) -> None:
    """A process that runs one job itself also gives it back if stopped between claim and run."""
    if within is nullcontext:
        stop_on_signals()
    others = database.submit({"M": 64, "N": 8})
    assert queue.claim(database.engine, "other", ["cpu"], job_id=others.id) is not None
    job = database.submit(SHAPE)
    with closing(StoppedAtOnce(database.engine, bench.device, Settings(build_workers=1))) as worker:
        worker.by = by
        with pytest.raises(raised), within():
            run_or_watch(database.engine, worker, job)
    waiting = queue.get(database.engine, job.id)
    assert (waiting.state, waiting.attempt, waiting.released) == ("queued", 1, 1)
    assert queue.get(database.engine, others.id).state == "running"


def test_worker_stopped_after_losing_its_lease_leaves_the_job_alone(
    database: Database, worker: Worker
) -> None:
    """A worker that is stopped after losing its lease leaves the job to its new holder."""
    job = database.submit(SHAPE, trials=1)
    held = queue.claim(database.engine, worker.name, ["cpu"])
    assert held is not None

    def stop(_: object) -> None:
        database.run_out(job)
        queue.claim(database.engine, "other", ["cpu"])
        raise Stopped

    with pytest.raises(Stopped):
        worker.take(held, stop)
    assert queue.get(database.engine, job.id).worker == "other"


def test_worker_metrics_count_its_jobs_and_trials(database: Database, bench: Bench) -> None:
    done = database.submit(SHAPE, trials=2)  # cancelled after one trial, so there is no round
    failed = database.submit(SHAPE, search="annealing")
    settings = Settings(build_workers=1, metrics_port=0)
    pages: dict[str, str] = {}

    class Asked(Worker):
        """A worker whose metrics are read before each claim and as each job begins.

        ``pages`` keeps them by the id of the job that comes next.
        """

        def _next(self) -> queue.Job | None:
            (served,) = [line for line in said if line["event"] == "metrics_served"]
            self.address = f"http://{served['host']}:{served['port']}/metrics"
            job = super()._next()
            pages["idle" if job is None else job.id] = httpx2.get(self.address).text
            return job

        def _run(self, job: queue.Job, watch: Callable[[Progress], None]) -> None:
            pages[f"in {job.id}"] = httpx2.get(self.address).text
            super()._run(job, cancel_after(1, database, job))

    worker = Asked(database.engine, bench.device, settings)
    with capture_logs() as said:
        worker.run(once=True)
    assert f'convtune_worker_current_job{{job_id="{done.id}"}} 1.0' in pages[f"in {done.id}"]
    assert "convtune_worker_jobs_total{" not in pages[done.id]
    end = pages["idle"]
    assert 'convtune_worker_jobs_total{outcome="cancelled"} 1.0' in end
    assert 'convtune_worker_jobs_total{outcome="failed"} 1.0' in end
    assert failed.id not in end
    statuses = Counter(trial.status for trial in database.trials(done))
    for status, count in statuses.items():
        assert f'convtune_worker_trials_total{{status="{status}"}} {count:.1f}' in end
    assert 'convtune_worker_trial_seconds_count{phase="build"} 1.0' in end
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(worker.address)


def test_worker_metrics_count_all_trials_stored_between_reports(
    database: Database, bench: Bench
) -> None:
    """The metrics count all trials, even if many are stored before the next report.

    A list's invalid configurations are stored at once. Here they are more trials than the worker
    reads from the database at a time.
    """
    count = 2 * TRIALS_PER_READ + 1
    workload = templates.operator("conv1d").workload.model_validate(SHAPE)
    order = JobOrder.of(workload, target="cpu", search=IMPORTED)
    lines = [ListedConfig({"template": "direct", "flux": n}, 1, {}) for n in range(count)]
    imports.store(database.engine, [ListedOrder(order, lines)], [])
    with closing(
        Worker(database.engine, bench.device, Settings(build_workers=1, metrics_port=0))
    ) as worker:
        job = worker.claim("cpu")
        assert job is not None
        worker.take(job)
        sample = worker._metrics._registry.get_sample_value
        assert sample("convtune_worker_trials_total", {"status": "skipped"}) == count


def test_worker_refuses_a_taken_metrics_port_before_any_job(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = Worker(database.engine, bench.device, Settings(build_workers=1, metrics_port=port))
        with pytest.raises(TunerError, match=f"port {port}: .*TUNER_METRICS_PORT"):
            worker.run(once=True)
    assert queue.get(database.engine, job.id).state == "queued"
