"""The service as a process: start, failures to start, log, stop, and its use of CPU and memory."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from queue import Queue
from statistics import median
from threading import Thread
from typing import Any

import httpx2
import psutil
import pytest
from live import Stream
from problem_shape import problem
from service_rows import tuned

from api.__main__ import main
from db.access import keys
from db.sql.engine import open_engine
from tests import databases

ROOT = Path(__file__).parents[2]
ORDER = {"operator": "conv1d", "workload": {"M": 16384, "N": 32}, "trials": 48}
EVERYWHERE = "0.0.0.0"  # noqa: S104
SERVE = [sys.executable, "-m", "uvicorn", "api.main:app", "--port", "0"]
HEAVY = ("tvm", "tvm_ffi", "xgboost", "scipy", "torch", "tuner")


class Service:
    """A service process that listens at ``url``, and the lines that it writes to stderr."""

    def __init__(self, command: list[str], **settings: str) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **settings},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.lines: list[str] = []
        self._fresh: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        found = None
        while found is None:
            found = re.search(r"running on (http://\S+)", self._fresh.get(timeout=60))
        self.url = found[1]

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.lines.append(line)
                self._fresh.put(line)

    def stop(self) -> int:
        """Stop the service with SIGTERM; return its exit status once ``lines`` is complete."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        self._reader.join(30)
        return status

    def spent(self) -> float:
        """Return the CPU time, s, that the process has used so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    started: list[Service] = []
    url = databases.created(tmp_path / "service.db")

    def start(command: list[str] = SERVE, **settings: str) -> Service:
        database = {"TUNER_DATABASE_URL": url}
        started.append(Service(command, **(database | settings)))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for all tests of this module that leave no rows behind."""
    database = tmp_path_factory.mktemp("running") / "service.db"
    service = Service(SERVE, TUNER_DATABASE_URL=f"sqlite:///{database}")
    yield service
    service.stop()


def events(service: Service) -> list[dict[str, Any]]:
    return [json.loads(line) for line in service.lines if line.startswith("{")]


def test_requests_of_an_order_and_its_cancel_are_logged(serve: Callable[..., Service]) -> None:
    service = serve()
    with httpx2.Client(base_url=service.url) as client:
        made = client.post("/jobs", json=ORDER, headers={"X-Request-ID": "my-order"})
        job = client.get(made.headers["location"]).json()
        assert (made.status_code, job["state"]) == (201, "queued")
        problem(client.get(job["links"]["best"]), 404, "not-tuned")
        assert client.post(job["links"]["cancel"]).json()["state"] == "cancelled"
        assert client.head("/jobs").content == b""
    assert service.stop() in {0, -signal.SIGTERM}
    lines = [line for line in events(service) if line["event"] == "request"]
    assert len(lines) == 5
    first = lines[0]
    assert (first["method"], first["path"], first["status"]) == ("POST", "/jobs", 201)
    assert (first["request_id"], first["job_id"]) == ("my-order", job["id"])
    assert [line["job_id"] for line in lines if "/jobs/" in line["path"]] == [job["id"]] * 2
    assert not [line for line in service.lines if '"POST /jobs' in line]


def test_python_m_api_serves_and_logs_only_json(serve: Callable[..., Service]) -> None:
    service = serve([sys.executable, "-m", "api"], TUNER_PORT="0")
    assert httpx2.get(f"{service.url}/readyz").json() == {"status": "ok"}
    service.stop()
    assert all(line.startswith("{") for line in service.lines)
    assert len([line for line in service.lines if "running on" in line]) == 1


def test_log_names_a_key_but_never_shows_its_secret(
    serve: Callable[..., Service], tmp_path: Path
) -> None:
    service = serve()
    engine = open_engine(f"sqlite:///{tmp_path / 'service.db'}")
    secret = keys.create(engine, "ci", "submit")[1]
    engine.dispose()
    with httpx2.Client(base_url=service.url) as client:
        sent = {"authorization": f"Bearer {secret}"}
        assert client.post("/jobs", json=ORDER, headers=sent).status_code == 201
        form = {"sec-fetch-site": "same-origin"}
        assert client.post("/ui/key", data={"key": secret}, headers=form).status_code == 303
        problem(client.post("/jobs", json=ORDER), 401, "key-required")
    service.stop()
    lines = [line for line in events(service) if line["event"] == "request"]
    assert [line.get("key") for line in lines] == ["ci", None, None]
    assert not [line for line in service.lines if secret in line]


def test_console_log_format_writes_no_json(serve: Callable[..., Service]) -> None:
    service = serve(TUNER_LOG_FORMAT="console")
    httpx2.get(f"{service.url}/jobs")
    service.stop()
    assert not events(service)
    assert any("path=/jobs" in line for line in service.lines)


@pytest.mark.parametrize("command", [SERVE, [sys.executable, "-m", "api"]])
def test_stopping_the_service_ends_event_streams(
    serve: Callable[..., Service], command: list[str]
) -> None:
    service = serve(command, TUNER_PORT="0")
    job = httpx2.post(f"{service.url}/jobs", json=ORDER).json()["id"]
    with Stream(service.url, job) as stream:
        got = iter(stream)
        next(got)
        assert service.stop() in {0, -signal.SIGTERM}
        assert [event.kind for event in got] == ["progress"]
    line = next(line for line in events(service) if str(line.get("path")).endswith("/events"))
    assert (line["status"], line["job_id"]) == (200, job)
    assert "stopped" in [line["event"] for line in events(service)]
    assert not [line for line in service.lines if "graceful shutdown exceeded" in line]


def bests(service: Service, requests: int = 200) -> tuple[float, float]:
    """Return the CPU time of the service for so many GET /best, and their median latency, in s.

    The CPU time does not depend on what else the machine does; the median latency hardly does.
    """
    took, before = [], service.spent()
    with httpx2.Client(base_url=service.url) as client:
        for _ in range(requests):
            start = time.perf_counter()
            assert client.get("/best/conv1d?M=16384&N=32").status_code == 200
            took.append(time.perf_counter() - start)
    return service.spent() - before, median(took)


def test_200_idle_listeners_barely_slow_other_requests(
    serve: Callable[..., Service], tmp_path: Path
) -> None:
    service = serve()
    engine = open_engine(f"sqlite:///{tmp_path / 'service.db'}")
    tuned(engine, "conv1d", {"M": 16384, "N": 32})
    engine.dispose()
    order = {"operator": "conv1d", "workload": {"M": 100, "N": 3}}
    with httpx2.Client(base_url=service.url) as client, ExitStack() as listening:
        found = [client.post("/jobs", json=order | {"seed": seed}) for seed in range(50)]
        alone = bests(service)
        for job in 4 * found:
            stream = listening.enter_context(Stream(service.url, job.json()["id"]))
            assert next(iter(stream)).kind == "state"
        assert "convtune_event_streams 200.0" in client.get("/metrics").text
        watched = bests(service)
    assert watched[0] <= 2 * alone[0] + 0.2
    assert watched[1] <= 5 * alone[1] + 0.05


CHUNK = b"1000\r\n" + b" " * 4096 + b"\r\n"


def unfinished(url: str, path: str, kind: str, chunks: int) -> bytes:
    """Send this number of chunks of a body, but not its end; return the answer.

    The service must close the connection after the answer.
    """
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode() + chunks * CHUNK)
        answer = b""
        with suppress(ConnectionResetError):  # bytes that the service never reads cause a reset
            while more := connection.recv(65536):
                answer += more
    return answer


def test_too_large_body_is_refused_before_it_ends(running: Service) -> None:
    answer = unfinished(running.url, "/jobs", "application/json", chunks=17)  # more than 64 KiB
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"application/problem+json" in answer


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [("/jobs", 9_000_000, 413), ("/records", 9_000_000, 413), ("/records", 8_000_000, 415)],
)
def test_a_client_that_sends_all_before_it_reads_is_answered(
    running: Service, path: str, size: int, status: int
) -> None:
    with closing(HTTPConnection(running.url.removeprefix("http://"), timeout=30)) as client:
        client.request("POST", path, bytes(size), {"content-type": "text/plain"})
        with client.getresponse() as answer:
            assert answer.status == status
            assert json.loads(answer.read())["status"] == status


@pytest.mark.parametrize(
    ("path", "status"), [("/nowhere", b"404"), ("/jobs/0/cancel", b"404"), ("/records", b"415")]
)
def test_connection_closes_after_the_answer_to_an_unread_body(
    running: Service, path: str, status: bytes
) -> None:
    answer = unfinished(running.url, path, "application/octet-stream", chunks=1)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"TUNER_DATABASE_URL": "sqlite:////no/such/folder/x.db"}, "/no/such/folder"),
        ({"TUNER_DATABASE_URL": "nonsense"}, "TUNER_DATABASE_URL"),
        ({"TUNER_DATABASE_URL": "sqlite:///README_IS_NO_DATABASE"}, "README_IS_NO_DATABASE"),
        ({"TUNER_LOG_FORMAT": "xml"}, "TUNER_LOG_FORMAT must be 'json' or 'console'"),
        ({"TUNER_HOST": EVERYWHERE}, "TUNER_HOST is 0.0.0.0, which is not loopback, and there"),
    ],
)
def test_failure_to_start_prints_one_line(
    tmp_path: Path, settings: dict[str, str], says: str
) -> None:
    _is_one_line(tmp_path, [sys.executable, "-m", "api"], settings, says)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"TUNER_DATABASE_URL": "sqlite:////no/such/folder/x.db"}, "/no/such/folder"),
        ({"TUNER_LOG_FORMAT": "xml"}, "TUNER_LOG_FORMAT must be 'json' or 'console'"),
    ],
)
def test_failure_to_start_under_uvicorn_prints_one_line(
    tmp_path: Path, settings: dict[str, str], says: str
) -> None:
    _is_one_line(tmp_path, SERVE, settings, says)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("TUNER_TRUSTED_PROXIES", "proxy", "must be addresses or networks"),
        ("TUNER_REQUESTS_PER_SECOND", "0", "must be more than 0"),
    ],
)
def test_invalid_setting_prints_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    says: str,
) -> None:
    """An invalid value of any other setting prints one line with its name."""
    monkeypatch.setenv(name, value)
    assert main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name} {says}" in line


def test_argument_is_refused_with_the_way_to_set_the_port(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--port", "8917"])
    usage, error = capsys.readouterr().err.splitlines()
    assert "TUNER_PORT=" in usage
    assert "--port 8917" in error


def _is_one_line(tmp_path: Path, command: list[str], settings: dict[str, str], says: str) -> None:
    (tmp_path / "README_IS_NO_DATABASE").write_text("no database " * 100)
    database = {"TUNER_DATABASE_URL": f"sqlite:///{tmp_path / 'service.db'}"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TUNER_PORT": "0", **database, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode not in {0, -signal.SIGTERM}
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if says in line]) == 1, done.stderr


def test_importing_the_api_opens_no_database_and_imports_no_compiler(tmp_path: Path) -> None:
    code = f"import sys, api.main; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TUNER_DATABASE_URL": "nonsense"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    assert list(tmp_path.iterdir()) == []


def test_service_stays_below_150_mb(serve: Callable[..., Service]) -> None:
    """The service takes less than 150 MB after 600 requests."""
    service = serve()
    paths = ["/jobs", "/operators", "/best/conv1d?M=100&N=3", "/workers", "/metrics"]
    with httpx2.Client(base_url=service.url) as client:
        for turn in range(100):
            client.post("/jobs", json=ORDER | {"seed": turn})
            for path in paths:
                client.get(path)
    assert psutil.Process(service.process.pid).memory_info().rss < 150e6
