"""The client against the service as a process, with libraries that were really built."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from service_process import Service
from stored_best import claimed

from db import queue
from tuner import client as module
from tuner.answers import Job
from tuner.client import Client
from tuner.errors import (
    JobFailed,
    NoLibrary,
    NotTuned,
    ServiceError,
    ServiceUnreachable,
    StillRunning,
)

SHAPE = {"M": 16384, "N": 32}
OTHER = {"M": 100, "N": 3}
PLAIN_PROGRAM = Path(__file__).with_name("plain_program.txt").read_text()
HEAVY = ("tvm", "xgboost", "sqlalchemy", "fastapi", "starlette")


def test_a_job_is_ordered_and_looked_at(client: Client) -> None:
    job = client.submit(
        "conv1d", OTHER, trials=7, target="cpu", search="random", seed=3, kind="correlate"
    )
    assert (job.state, job.operator, job.target, job.search) == (
        "queued",
        "conv1d",
        "cpu",
        "random",
    )
    assert job.workload == {
        **OTHER,
        "mode": "full",
        "kind": "correlate",
        "dtype": "float32",
        "max_error": 1e-5,
    }
    assert (job.trials.requested, job.trials.measured, job.best) == (7, 0, None)
    assert job.created_at.tzinfo is not None
    assert client.job(job.id) == client.job(job) == job
    with pytest.raises(ValidationError, match="frozen"):
        setattr(job, "state", "succeeded")  # noqa: B010  # mypy refuses the plain form


def test_an_equal_order_is_the_same_job(client: Client) -> None:
    first, again = (client.submit("conv1d", OTHER, trials=9) for _ in range(2))
    assert first.id == again.id
    assert client.submit("conv1d", OTHER, trials=10).id != first.id


def test_what_is_tuned_is_not_tuned_again_unless_asked(client: Client) -> None:
    tuned = client.submit("conv1d", SHAPE, trials=3)
    assert (tuned.state, tuned.ended) == ("succeeded", True)
    assert client.wait(tuned) == tuned
    assert tuned.device is not None
    assert tuned.device.kind == "cpu"
    assert client.submit("conv1d", SHAPE, trials=3, on_existing="retune").state == "queued"


def test_waiting_shows_each_step_and_gives_the_winner(service: Service, client: Client) -> None:
    job, seen = client.submit("conv1d", OTHER, trials=2), []
    held = claimed(service.engine)
    best = {"config": {"template": "direct"}, "time_us": 1.5, "gflops": 2.0}

    def work(now: Job) -> None:
        seen.append(now)
        if len(seen) == 1:
            queue.progress(
                service.engine, job.id, held.attempt,
                measured=1, ok=1, failed=0, best=best, eta_seconds=1.5, device_id=None,
            )  # fmt: skip
        elif len(seen) == 2:
            queue.finish(service.engine, job.id, held.attempt, "succeeded")

    ended = client.wait(job, timeout=30, progress=work, poll=0.02)
    assert [each.state for each in seen] == ["running", "running", "succeeded"]
    assert [each.trials.measured for each in seen] == [0, 1, 1]
    assert (seen[1].eta_seconds, seen[1].best and seen[1].best.time_us) == (1.5, 1.5)
    assert ended == seen[-1]
    assert ended.finished_at is not None


def test_a_job_that_fails_says_why(service: Service, client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=3)
    held = claimed(service.engine)
    queue.finish(service.engine, held.id, held.attempt, "failed", "all 3 trials were wrong")
    with pytest.raises(JobFailed, match=f"job {job.id} failed: all 3 trials were wrong") as raised:
        client.wait(job)
    assert raised.value.job.state == "failed"


def test_a_cancelled_job_ends_the_wait(client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=4)
    assert client.cancel(job).state == "cancelled"
    with pytest.raises(JobFailed, match="was cancelled"):
        client.wait(job.id)
    with pytest.raises(ServiceError) as raised:
        client.cancel(job)
    assert (raised.value.status, raised.value.type) == (409, "urn:convtune:problem:job-ended")


def test_a_wait_may_end_before_the_job(client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=5)
    seen: list[Job] = []
    with pytest.raises(StillRunning, match=r"is queued after 0\.3 s, with 0 of 5 trials") as raised:
        client.wait(job, timeout=0.3, progress=seen.append, poll=0.02)
    assert raised.value.job == job
    assert seen == [job]  # asked for often, shown once
    with pytest.raises(StillRunning):
        client.wait(job, timeout=0)


def test_a_wait_outlasts_a_restart_of_the_service(service: Service, client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=6)
    held = claimed(service.engine)
    begun = Event()
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(client.wait, job, 60, lambda _: begun.set(), 0.02)
        assert begun.wait(30)
        service.stop()
        try:
            queue.finish(service.engine, job.id, held.attempt, "succeeded")
            assert not ended.done()
        finally:
            service.start()
        assert ended.result(30).state == "succeeded"


def test_a_service_that_stays_away_ends_the_wait(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = client.submit("conv1d", OTHER, trials=8)
    monkeypatch.setattr(module, "OUTAGE_SECONDS", 0.1)
    with Client(free_url()) as away:
        begun = iter([job])  # it answers once and is gone
        monkeypatch.setattr(away, "job", lambda _: next(begun, None) or Client.job(away, job))
        with pytest.raises(ServiceUnreachable):
            away.wait(job, poll=0.02)


def test_the_trials_of_all_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIALS_PER_PAGE", 2)
    job = client.submit("conv1d", SHAPE, trials=3)
    trials = list(client.trials(job))
    assert [trial.number for trial in trials] == [1, 2, 3]
    assert [trial.status for trial in trials] == ["ok", "build_error", "ok"]
    assert (trials[0].time_us, trials[1].error) == (20.0, "no such register")
    assert [trial.number for trial in client.trials(job.id, status="build_error")] == [2]


def test_the_best_of_a_shape(client: Client) -> None:
    best = client.best("conv1d", SHAPE)
    assert (best.match, best.template, best.time_us) == ("exact", "direct", 20.0)
    assert best.config["threading"] == "parallel"
    assert best.artifacts.library is not None
    assert client.job(best.job).state == "succeeded"
    assert client.best("conv1d", SHAPE, target="cpu", device=best.device.name) == best


def test_an_answer_is_sent_anew_only_when_it_has_changed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = []
    send = httpx2.Client.send

    def counted(self: httpx2.Client, *given: Any, **named: Any) -> httpx2.Response:
        answer = send(self, *given, **named)
        statuses.append(answer.status_code)
        return answer

    monkeypatch.setattr(httpx2.Client, "send", counted)
    first = client.best("conv1d", SHAPE)
    assert client.best("conv1d", SHAPE) == first
    with Client(client.url, cache=client.cache.folder) as later:
        assert later.best("conv1d", SHAPE) == first
    assert statuses == [200, 304, 304]
    (kept,) = client.cache.folder.glob("*.answer")
    whole = kept.read_bytes()
    for torn in (whole[:-9], whole.replace(b"20.0", b"10.0"), b""):
        kept.write_bytes(torn)
        assert client.best("conv1d", SHAPE) == first
        assert (statuses[-1], kept.read_bytes()) == (200, whole)


def test_a_shape_that_is_not_tuned(client: Client) -> None:
    with pytest.raises(NotTuned, match="has not been tuned") as raised:
        client.best("conv1d", OTHER)
    tune = raised.value.problem["tune"]["body"]
    assert client.submit(**tune).workload["M"] == 100
    with pytest.raises(NotTuned, match="for cuda"):
        client.best("conv1d", SHAPE, target="cuda")


def test_a_nearest_match_lends_no_library(client: Client) -> None:
    best = client.best("conv1d", match="nearest", M=16000, N=32)
    assert (best.match, best.time_us) == ("nearest", None)
    assert best.neighbour is not None
    assert best.neighbour.workload["M"] == 16384
    with pytest.raises(NoLibrary, match="submit the shape"):
        client.load(best)


@pytest.mark.parametrize(
    ("call", "status", "fields"),
    [
        (lambda c: c.submit("conv1d", M=0, N=1), 422, ["workload.M"]),
        (
            lambda c: c.submit("conv1d", M=8, N=2, trials=0, search="luck"),
            422,
            ["trials", "search"],
        ),
        (lambda c: c.submit("conv1d", M=8.5, N=2, K=1), 422, ["workload.M", "workload.K"]),
        (lambda c: c.submit("conv9d", M=8), 422, ["operator"]),
        (lambda c: c.best("conv1d", M=8), 422, ["N"]),
        (lambda c: c.best("conv9d/x", M=8), 404, []),
        (lambda c: c.job("no/such job"), 404, []),
        (lambda c: c.wait("nosuchjob"), 404, []),
        (lambda c: list(c.trials("nosuchjob")), 404, []),
        (lambda c: c.cancel("nosuchjob"), 404, []),
    ],
)
def test_a_refusal_names_what_is_wrong(
    client: Client, call: Any, status: int, fields: list[str]
) -> None:
    with pytest.raises(ServiceError) as raised:
        call(client)
    assert raised.value.status == status
    assert raised.value.type.startswith("urn:convtune:problem:")
    named = [each["field"] for each in raised.value.errors]
    assert named == fields
    assert all(name in str(raised.value) for name in named)


def free_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_service_that_is_not_there() -> None:
    url = free_url()
    with Client(url) as nowhere, pytest.raises(ServiceUnreachable, match="tuner serve") as raised:
        nowhere.best("conv1d", SHAPE)
    assert url in str(raised.value)
    assert raised.value.status is None


@pytest.mark.parametrize("url", ["localhost:8000", "", "http://[::", "ftp://127.0.0.1"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ServiceUnreachable), Client(url) as nowhere:
        nowhere.job("x")


def test_a_password_in_the_url_is_not_shown() -> None:
    url = free_url().replace("//", "//me:secret@")
    with Client(url) as nowhere, pytest.raises(ServiceUnreachable) as raised:
        nowhere.job("x")
    assert "secret" not in str(raised.value)


class Stranger(BaseHTTPRequestHandler):
    """Another kind of server on that port."""

    def do_GET(self) -> None:
        self.send_response(502 if "trials" in self.path else 200)
        self.end_headers()
        self.wfile.write(b"<html>\nhello</html>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def stranger() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_of_another_kind(stranger: str) -> None:
    with Client(stranger) as client:
        with pytest.raises(ServiceError, match="is no convtune service"):
            client.job("x")
        with pytest.raises(ServiceError, match=r"<html> \(HTTP 502\)"):
            list(client.trials("x"))
