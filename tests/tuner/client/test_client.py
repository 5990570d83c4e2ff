"""The client against a real service process: orders, jobs, trials, bests, and refusals."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from service_process import Service
from sqlalchemy import Engine
from stored_best import claimed

from db import queue
from db.fleet.devices import list_devices
from db.results import best as storage
from tests.tuner.answering import running
from tuner.client import client as module
from tuner.client.answers import Best
from tuner.client.client import Client
from tuner.errors import (
    JobFailed,
    NoLibrary,
    NotTuned,
    ServiceError,
    ServiceUnreachable,
    WrongArgument,
)

SHAPE = {"M": 16384, "N": 32}
OTHER = {"M": 100, "N": 3}


def test_submitted_job_has_its_terms_and_can_be_read_back(client: Client) -> None:
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
        "bias": False,
        "residual": False,
        "activation": "none",
        **{"B": 1, "C": 1, "stride": 1, "dilation": 1, "layout": "NCW"},
        "gated": False,
        "direction": "forward",
    }
    assert (job.trials.requested, job.trials.measured, job.best) == (7, 0, None)
    assert job.created_at.tzinfo is not None
    assert client.job(job.id) == client.job(job) == job
    assert (job.links.self, job.links.events) == (f"/jobs/{job.id}", f"/jobs/{job.id}/events")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(job, "state", "succeeded")  # noqa: B010  # mypy refuses the plain form


def test_equal_orders_give_the_same_job(client: Client) -> None:
    first, again = (client.submit("conv1d", OTHER, trials=9) for _ in range(2))
    assert first.id == again.id
    assert client.submit("conv1d", OTHER, trials=10).id != first.id


def test_tuned_shape_is_not_tuned_again_without_retune(client: Client) -> None:
    tuned = client.submit("conv1d", SHAPE, trials=3)
    assert (tuned.state, tuned.ended) == ("succeeded", True)
    assert client.wait(tuned) == tuned
    assert tuned.device is not None
    assert tuned.device.kind == "cpu"
    assert client.submit("conv1d", SHAPE, trials=3, on_existing="retune").state == "queued"


def test_a_cancelled_job_ends_the_wait(client: Client) -> None:
    job = client.submit("conv1d", OTHER, trials=4)
    assert client.cancel(job).state == "cancelled"
    with pytest.raises(JobFailed, match="was cancelled"):
        client.wait(job.id)
    with pytest.raises(ServiceError) as raised:
        client.cancel(job)
    assert (raised.value.status, raised.value.type) == (409, "urn:convtune:problem:job-ended")


def test_client_lists_the_trials_of_all_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRIALS_PER_PAGE", 2)
    job = client.submit("conv1d", SHAPE, trials=3)
    trials = list(client.trials(job))
    assert [trial.number for trial in trials] == [1, 2, 3]
    assert [trial.status for trial in trials] == ["ok", "build_error", "ok"]
    assert (trials[0].time_us, trials[1].error) == (20.0, "no such register")
    assert [trial.number for trial in client.trials(job.id, status="build_error")] == [2]


def test_client_returns_the_best_of_a_shape(client: Client) -> None:
    best = client.best("conv1d", SHAPE)
    assert (best.match, best.template, best.time_us) == ("exact", "direct", 20.0)
    assert best.verified
    assert best.config["threading"] == "parallel"
    assert best.artifacts.library is not None
    assert client.job(best.job).state == "succeeded"
    assert client.best("conv1d", SHAPE, target="cpu", device=best.device.name) == best


def test_service_sends_an_answer_again_only_if_it_has_changed(
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


def test_best_of_an_untuned_shape_raises_not_tuned(client: Client) -> None:
    with pytest.raises(NotTuned, match="has not been tuned") as raised:
        client.best("conv1d", OTHER)
    tune = raised.value.problem["tune"]["body"]
    assert client.submit(**tune).workload["M"] == 100
    with pytest.raises(NotTuned, match="for cuda"):
        client.best("conv1d", SHAPE, target="cuda")


def test_nearest_match_has_no_library_to_load(client: Client) -> None:
    best = client.best("conv1d", match="nearest", M=16000, N=32)
    assert (best.match, best.verified, best.time_us) == ("nearest", False, None)
    assert best.neighbour is not None
    assert best.neighbour.workload["M"] == 16384
    with pytest.raises(NoLibrary, match="submit the shape"):
        client.load(best)


def test_client_has_a_nearest_match_verified(service: Service, client: Client) -> None:
    shape = {"M": 15999, "N": 32}
    lent = client.best("conv1d", shape, match="nearest")
    job = client.verify_nearest("conv1d", shape, target="cpu", device=lent.device.name)
    assert (job.search, job.target, job.trials.requested) == ("neighbour", "cpu", 1)
    assert client.verify_nearest("conv1d", M=15999, N=32).id == job.id
    verify(service.engine, lent)
    assert client.wait(job).state == "succeeded"
    best = client.best("conv1d", shape, match="nearest")
    assert (best.match, best.verified, best.time_us, best.job) == ("nearest", True, 21.0, job.id)
    assert (best.config, best.neighbour) == (lent.config, lent.neighbour)
    assert client.verify_nearest("conv1d", shape).id == job.id


def test_client_orders_a_prediction_and_waits_for_it(service: Service, client: Client) -> None:
    shape = {"M": 15998, "N": 32}
    lent = client.best("conv1d", shape, match="nearest")

    def work() -> None:
        queued: list[queue.Job] = []
        while not queued:
            sleep(0.02)
            listed = queue.list_jobs(service.engine).items
            queued = [job for job in listed if job.search == "predicted"]
        held = queue.claim(service.engine, "worker-1", ["cpu"], job_id=queued[0].id)
        assert held is not None
        verify(service.engine, lent, held)

    with ThreadPoolExecutor(1) as worker:
        done = worker.submit(work)
        best = client.best("conv1d", shape, match="predicted", target="cpu")
        done.result(10)
    assert (best.match, best.verified, best.time_us) == ("predicted", True, 21.0)
    assert client.job(best.job).trials.requested == 8
    assert client.best("conv1d", shape) == best
    assert client.best("conv1d", SHAPE, match="predicted").match == "exact"


def verify(engine: Engine, lent: Best, held: queue.Job | None = None) -> None:
    """Store a best with the lent configuration for a claimed job, as a worker that verified it
    would, but without files."""
    held = held or claimed(engine)
    (device,) = (each for each in list_devices(engine) if each.name == lent.device.name)
    new = storage.NewBest(
        operator=held.operator,
        workload_key=held.workload_key,
        workload=held.workload,
        device_id=device.id,
        template=lent.template,
        template_version=1,
        tvm_version="0.27.0",
        config=lent.config,
        time_us=21.0,
        timing={"warm": {"median": 21.0}},
        gflops=50.0,
        roofline={},
        max_error=1e-7,
        baselines=[],
        trials_measured=1,
        versions={},
    )
    storage.finish_with_bests(engine, held.id, held.attempt, [storage.BestWithFiles(new, [])])


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
        (lambda c: c.verify_nearest("conv1d", M=8, N=2, kind="correlate"), 404, []),
        (
            lambda c: c.verify_nearest("conv1d", M=8, N=2, threads=0, parallel="always"),
            422,
            ["threads", "parallel"],
        ),
        (
            lambda c: c.verify_nearest("conv1d", M=8, N=0, target="tpu"),
            422,
            ["workload.N", "target"],
        ),
    ],
)
def test_refused_request_names_the_wrong_fields(
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
    """Return a URL of this machine at whose port nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_unreachable_service_is_named_in_the_error() -> None:
    url = free_url()
    with Client(url) as nowhere, pytest.raises(ServiceUnreachable, match="tuner serve") as raised:
        nowhere.best("conv1d", SHAPE)
    assert url in str(raised.value)
    assert raised.value.status is None


@pytest.mark.parametrize("url", ["localhost:8000", "", "http://[::", "ftp://127.0.0.1"])
def test_client_refuses_an_invalid_url(url: str) -> None:
    says = r"a url begins with http://|\[::"
    with pytest.raises(ServiceUnreachable, match=says), Client(url) as nowhere:
        nowhere.job("x")


@pytest.mark.parametrize("port", [None, "http"])
def test_a_password_in_the_url_is_not_shown(port: str | None) -> None:
    url = free_url().replace("//", "//me:secret@")
    if port is not None:  # "http" is no port number
        url = url.rpartition(":")[0] + f":{port}"
    with pytest.raises(ServiceUnreachable) as raised, Client(url) as nowhere:
        nowhere.job("x")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("scheme", "name", "value"),
    [
        ("http", "ALL_PROXY", "socks5://me:secret@127.0.0.1:1"),
        ("http", "ALL_PROXY", "ftp://me:secret@127.0.0.1"),
        ("https", "SSL_CERT_FILE", "/nowhere/at-all.pem"),
    ],
)
def test_client_refuses_unusable_proxies_and_certificates_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, scheme: str, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ServiceUnreachable, match="look at the environment's proxies") as raised:
        Client(f"{scheme}://me:secret@127.0.0.1:9")
    assert "secret" not in str(raised.value)


def test_certificates_are_read_only_for_https(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/at-all.pem")
    with Client(service.url) as client:
        client.signers()


def test_a_service_of_this_machine_is_asked_without_a_proxy(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", free_url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    for url in service.url, service.url.replace("127.0.0.1", "localhost"):
        with Client(url) as client:
            client.signers()
    with Client("http://192.0.2.1") as client, pytest.raises(ServiceUnreachable, match="refused"):
        client.signers()  # the proxy, which refuses, is asked for any other host


def test_client_refuses_a_url_that_is_no_text() -> None:
    with pytest.raises(WrongArgument, match="url is a NoneType: give a text, as http://host"):
        Client(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 10**9, "5", None])
def test_client_refuses_an_invalid_timeout(timeout: Any) -> None:
    with pytest.raises(WrongArgument, match="give seconds, more than 0"):
        Client("http://127.0.0.1:9", timeout=timeout)


class Stranger(BaseHTTPRequestHandler):
    """An HTTP server that is no convtune service: it answers with HTML."""

    def do_GET(self) -> None:
        self.send_response(502 if "trials" in self.path else 200)
        self.end_headers()
        self.wfile.write(b"<html>\nhello</html>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def stranger() -> Iterator[str]:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Stranger)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_client_reports_a_server_that_is_no_convtune_service(stranger: str) -> None:
    with Client(stranger) as client:
        with pytest.raises(ServiceError, match="is no convtune service"):
            client.job("x")
        with pytest.raises(ServiceError, match=r"<html> \(HTTP 502\)"):
            list(client.trials("x"))
