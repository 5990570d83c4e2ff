"""The client waits for a job by the events of a real service process, also if connections are cut
and the service is frozen or restarted."""

import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any

import fastapi.sse
import pytest
from cutting import cutting
from service_process import Service
from sqlalchemy import Engine, delete
from stored_best import claimed, new_trial

from db import queue
from db.fleet import devices
from db.results import trials
from db.sql.engine import writing
from db.sql.tables import jobs
from tuner.client import client as requests
from tuner.client import listening
from tuner.client.answers import Job
from tuner.client.client import Client
from tuner.errors import (
    JobFailed,
    ModelStillRunning,
    ServiceError,
    ServiceUnreachable,
    StillRunning,
)

OTHER = {"M": 100, "N": 3}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each request at least 30 s, so that a busy machine answers the first one in time."""
    monkeypatch.setattr(requests, "MIN_REQUEST_SECONDS", 30.0)


class Work:
    """A stand-in for a worker: it claims the queued job and writes its trials, progress and end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.job = claimed(engine)
        (self.device, *_) = devices.list_devices(engine)
        self.done = 0

    def measure(self, count: int) -> None:
        new = [new_trial(self.device.id, self.done + number) for number in range(1, count + 1)]
        trials.add(self.engine, self.job.id, self.job.attempt, new)
        self.done += count
        self.report(self.done)

    def report(self, measured: int, eta_seconds: float | None = 1.5) -> None:
        best = {"config": {"template": "direct"}, "time_us": 1.5, "gflops": 2.0}
        queue.progress(
            self.engine, self.job.id, self.job.attempt,
            measured=measured, ok=measured, failed=0, best=best, eta_seconds=eta_seconds,
            device_id=self.device.id,
        )  # fmt: skip

    def end(self, state: Any = "succeeded", error: str | None = None) -> None:
        queue.finish(self.engine, self.job.id, self.job.attempt, state, error)


def test_wait_shows_each_step_and_returns_the_ended_job(service: Service, client: Client) -> None:
    job, seen = client.submit("conv1d", OTHER, trials=2), []
    work = Work(service.engine)

    def step(now: Job) -> None:
        seen.append(now)
        if len(seen) == 1:
            work.report(1)
        elif len(seen) == 2:
            work.end()

    ended = client.wait(job, timeout=30, progress=step)
    assert [each.state for each in seen[:2]] == ["running", "running"]
    assert [each.trials.measured for each in seen[:2]] == [0, 1]
    assert (seen[1].eta_seconds, seen[1].best and seen[1].best.time_us) == (1.5, 1.5)
    assert seen[1].device is not None
    assert ended == seen[-1] == client.job(job)
    assert [each.ended for each in seen[2:]] == [False] * (len(seen) - 3) + [True]
    assert ended.finished_at is not None
    assert client.wait(job.id, timeout=0) == ended


@pytest.mark.parametrize("seed", range(3))
def test_wait_resumes_an_event_stream_that_is_cut_repeatedly(
    service: Service, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311

    def budget() -> tuple[int, bool]:
        return chance.choice([0, 100, 500, 2000, 20_000, 60_000]), chance.random() < 0.5

    with cutting(service.url, budget) as proxy, Client(proxy.url, cache=tmp_path) as client:
        job = client.submit("conv1d", M=300 + seed, N=3, trials=400)
        work = Work(service.engine)

        def tune() -> None:
            while work.done < 400:
                work.measure(8)
                time.sleep(0.02)
            work.end()

        worker = Thread(target=tune)
        seen: list[Job] = []

        def step(now: Job) -> None:
            seen.append(now)
            if len(seen) == 1:
                worker.start()

        ended = client.wait(job, timeout=90, progress=step)
        worker.join()
    assert (ended.state, ended.trials.measured) == ("succeeded", 400)
    measured = [each.trials.measured for each in seen]
    assert measured == sorted(measured)
    assert [each.ended for each in seen].count(True) == 1
    places = [place for place in proxy.resumed if place is not None]
    assert len(places) >= 3
    assert proxy.resumed == [None] * (len(proxy.resumed) - len(places)) + places
    reached = [int(place.partition(".")[0]) for place in places]
    assert reached == sorted(reached)


def test_wait_raises_job_failed_with_the_reason(service: Service, client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=3)
    held = claimed(service.engine)
    queue.finish(service.engine, held.id, held.attempt, "failed", "all 3 trials were wrong")
    with pytest.raises(JobFailed, match=f"job {job.id} failed: all 3 trials were wrong") as raised:
        client.wait(job)
    assert raised.value.job.state == "failed"


def test_wait_raises_still_running_after_its_timeout(client: Client, patient: None) -> None:
    job = client.submit("conv1d", OTHER, trials=5)
    seen: list[Job] = []
    with pytest.raises(StillRunning, match=r"is queued after 0\.3 s, with 0 of 5 trials") as raised:
        client.wait(job, timeout=0.3, progress=seen.append)
    assert raised.value.job == job
    assert seen == [job]
    with pytest.raises(StillRunning):
        client.wait(job, timeout=0)


def test_wait_logs_once_that_no_worker_takes_the_job(
    client: Client, patient: None, caplog: pytest.LogCaptureFixture
) -> None:
    job = client.submit("conv1d", OTHER, trials=7)
    model = client.submit_model("net", [{"operator": "conv1d", "workload": OTHER}], trials=7)
    for wait in (client.wait, client.wait, lambda job, timeout: client.wait_model(model, timeout)):
        with pytest.raises((StillRunning, ModelStillRunning)):
            wait(job, timeout=0.3)
    (said,) = (record.getMessage() for record in caplog.records if record.name == "tuner.client")
    assert said.startswith(f"job {job.id} waits: no worker is alive")
    assert "python -m tuner.worker" in said


def test_wait_raises_job_failed_if_the_job_is_cancelled(service: Service, client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=15)
    with pytest.raises(JobFailed, match="was cancelled"):
        client.wait(job, timeout=30, progress=lambda now: now.ended or client.cancel(now))


@pytest.mark.parametrize("when", ["before", "within"])
def test_wait_ends_on_time_if_the_service_freezes(
    service: Service, client: Client, patient: None, when: str
) -> None:
    job, seen = client.submit("conv1d", M=101, N=3, trials=6), []

    def step(now: Job) -> None:
        seen.append(now)
        if len(seen) == (1 if when == "before" else 2):
            service.freeze()
        else:
            claimed(service.engine)

    try:
        with pytest.raises(StillRunning) as raised:
            client.wait(job, timeout=4.0, progress=step)
    finally:
        service.thaw()
    assert raised.value.job == seen[-1]
    assert seen[-1].state == ("queued" if when == "before" else "running")
    client.cancel(job)


def test_wait_raises_service_unreachable_if_the_service_is_already_frozen(
    service: Service, client: Client
) -> None:
    job = client.submit("conv1d", OTHER, trials=20)
    service.freeze()
    thaw = Timer(5, service.thaw)
    thaw.start()
    try:
        with pytest.raises(ServiceUnreachable, match="ReadTimeout"):
            client.wait(job, timeout=0.5)
    finally:
        service.thaw()
        thaw.cancel()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_wait_outlasts_a_restart_of_the_service(
    service: Service, client: Client, how: signal.Signals
) -> None:
    job = client.submit("conv1d", OTHER, trials=6)
    work = Work(service.engine)
    begun = Event()
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(client.wait, job, 60, lambda _: begun.set())
        assert begun.wait(30)
        service.stop(how)
        try:
            work.end()
            assert not ended.done()
        finally:
            service.start()
        assert ended.result(30).state == "succeeded"


def test_wait_raises_service_unreachable_if_the_service_stays_down(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = client.submit("conv1d", OTHER, trials=8)
    monkeypatch.setattr(listening, "OUTAGE_SECONDS", 0.1)
    try:
        with pytest.raises(ServiceUnreachable, match="refused"):
            client.wait(job, timeout=60, progress=lambda _: service.stop())
    finally:
        service.start()


def test_wait_ends_if_the_job_is_deleted(service: Service, client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=16)

    def remove(_: Job) -> None:
        with writing(service.engine) as connection:
            connection.execute(delete(jobs).where(jobs.c.id == job.id))

    with pytest.raises(ServiceError) as raised:
        client.wait(job, progress=remove)
    assert (raised.value.status, raised.value.type) == (404, "urn:convtune:problem:unknown-job")


def test_wait_passes_on_what_the_progress_callback_raises(client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=17)

    def stop(_: Job) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.wait(job, progress=stop)


@pytest.fixture(scope="module")
def pinging(tmp_path_factory: pytest.TempPathFactory, service: Service) -> Iterator[Service]:
    """Yield a service that comments on silent streams every 50 ms."""
    running = Service(tmp_path_factory.mktemp("pinging"), "tests.tuner.client.often_pinging:app")
    yield running
    running.close()


def test_silent_stream_with_comments_keeps_its_connection(
    pinging: Service, tmp_path: Path, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listening.SILENCE_SECONDS > 2 * fastapi.sse._PING_INTERVAL
    monkeypatch.setattr(listening, "SILENCE_SECONDS", 4.0)
    with cutting(pinging.url) as proxy, Client(proxy.url, cache=tmp_path) as client:
        job = client.submit("conv1d", OTHER)
        with pytest.raises(StillRunning):
            client.wait(job, timeout=6.0)
    assert proxy.resumed == [None]


def test_silent_stream_without_comments_is_opened_anew(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SILENCE_SECONDS", 1.5)
    with cutting(service.url) as proxy, Client(proxy.url, cache=tmp_path) as client:
        job = client.submit("conv1d", OTHER, trials=18)
        with pytest.raises(StillRunning):
            client.wait(job, timeout=8)
        client.cancel(job)
    places = [place for place in proxy.resumed if place is not None]
    assert proxy.resumed[0] is None
    assert len(places) >= 2
    assert len(set(places)) == 1


def test_progress_bar_shows_the_figures_of_the_events(
    service: Service,
    client: Client,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    job = client.submit("conv1d", M=102, N=3, trials=9)
    work = Work(service.engine)
    steps = iter([*(partial(work.measure, count) for count in (3, 4, 2)), work.end])

    def step(_: Job) -> None:
        time.sleep(0.6)  # the bar draws ten times a second
        next(steps, lambda: None)()

    client.wait(job, timeout=60, progress=step, bar=True)
    shown = capsys.readouterr().err
    for said in ("best 1.50 µs", "3/9", "7/9", "9/9", "trials/s", "0:02 left"):
        assert said in shown, said
