"""Connections that send or read too little are closed and leave room for others."""

import json
import socket
import subprocess
import sys
import threading
import time
from asyncio import Transport
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from fastapi import FastAPI
from live import Stream, served
from service_rows import LONG, long_log, running

from api.concurrency_limit import ConcurrencyLimit
from api.server import connections
from api.server.connections import BoundedProtocol
from db import queue
from db.results import artifacts
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
HEAD = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PATIENCE = 20.0
DESCRIPTORS = 256
STRANGERS = 600


@pytest.fixture
def hurried(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Host and port of a service whose deadlines are 0.3 s."""
    for name in connections.DEADLINE_SECONDS:
        monkeypatch.setitem(connections.DEADLINE_SECONDS, name, 0.3)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.3)
    with served(app, http=BoundedProtocol) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def until_closed(stranger: socket.socket) -> bytes:
    """Return what the service sends until it closes the connection.

    Raise TimeoutError if it sends nothing for PATIENCE seconds and does not close it.
    """
    stranger.settimeout(PATIENCE)
    said = b""
    while part := stranger.recv(4096):
        said += part
    return said


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /jo",
        HEAD,
        HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",
    ],
    ids=["nothing", "a line", "headers", "a body", "a chunk", "a second request"],
)
def test_client_that_does_not_finish_its_request_gets_408(
    hurried: tuple[str, int], sent: bytes
) -> None:
    """A client that does not send the rest of its request gets a 408 and is disconnected."""
    with socket.create_connection(hurried) as stranger:
        stranger.sendall(sent)
        said = until_closed(stranger)
    assert said.count(b"HTTP/1.1 408 Request Timeout") == 1
    assert httpx2.get(f"http://{hurried[0]}:{hurried[1]}/jobs").status_code == 200


def test_sending_byte_by_byte_does_not_extend_the_deadline(hurried: tuple[str, int]) -> None:
    with socket.create_connection(hurried) as stranger, pytest.raises(OSError, match=r"\[Errno"):
        for byte in iter(lambda: b"x", None):
            stranger.sendall(byte)
            time.sleep(0.02)


def test_server_drops_a_client_that_does_not_read_its_answer(
    hurried: tuple[str, int], app: FastAPI
) -> None:
    """A client that does not read its answer is dropped, and the next one may export."""
    long_log(app.state.engine)
    app.state.export_limit = ConcurrencyLimit("exports", 1, PATIENCE)
    with socket.create_connection(hurried) as idle:
        idle.sendall(b"GET /records HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(15) == b"HTTP/1.1 200 OK"
        log = httpx2.get(f"http://{hurried[0]}:{hurried[1]}/records", timeout=2 * PATIENCE)
    assert log.text.count("\n") == LONG


def test_client_that_reads_slowly_gets_the_whole_answer(
    hurried: tuple[str, int], app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow reader is not dropped as long as it reads.

    The unsent rest does not shrink to the buffer's low-water mark within STALLED_SECONDS, so the
    deadline must not depend on that mark.
    """
    monkeypatch.setattr(connections, "STALLED_SECONDS", 1.0)
    content, parts = bytes(48 << 20), 5
    sha256 = artifacts.put(app.state.engine, content, "library", "application/octet-stream")
    with socket.create_connection(hurried) as slow:
        slow.sendall(f"GET /artifacts/{sha256} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        with slow.makefile("rb") as answer:
            while answer.readline().strip():
                pass
            received = 0
            for _ in range(parts):
                time.sleep(0.4)
                received += len(answer.read(len(content) // parts))
            received += len(answer.read(len(content) - received))
    assert received == len(content)


class NarrowProtocol(BoundedProtocol):
    """A protocol with a small send buffer, so that even a small answer's end stays unsent."""

    made: ClassVar[list["NarrowProtocol"]] = []

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        self.lost = threading.Event()
        self.made.append(self)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


@contextmanager
def unread(
    app: FastAPI, connection: str, **options: Any
) -> Iterator[tuple[str, socket.socket, threading.Event]]:
    """Yield the service's URL, a client, and an event that is set once its connection is gone.

    The client has not read the end of its answer, which is smaller than 64 KiB.
    """
    NarrowProtocol.made.clear()
    options |= {"http": NarrowProtocol, "timeout_graceful_shutdown": 1}
    with served(app, **options) as url, socket.socket() as client:
        content = bytes(40_000)
        sha256 = artifacts.put(app.state.engine, content, "library", "application/octet-stream")
        host, _, port = url.removeprefix("http://").partition(":")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect((host, int(port)))
        client.sendall(
            f"GET /artifacts/{sha256} HTTP/1.1\r\nHost: localhost\r\n"
            f"Connection: {connection}\r\n\r\n".encode()
        )
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        yield url, client, NarrowProtocol.made[0].lost


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_server_drops_a_client_that_never_reads_the_end_of_its_answer(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    monkeypatch.setitem(connections.DEADLINE_SECONDS, "request", 0.3)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.3)
    with unread(app, connection) as (_, _, lost):
        assert lost.wait(PATIENCE)


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_closed_connection_with_unsent_bytes_is_dropped_for_a_new_client(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    """A closed connection with unsent bytes is dropped if its descriptor is needed."""
    monkeypatch.setitem(connections.DEADLINE_SECONDS, "request", 0.3)
    monkeypatch.setattr(connections, "max_connections", lambda: 1)
    with unread(app, connection) as (url, _, lost):
        time.sleep(0.6)  # longer than the deadline of 0.3 s, which closes the connection
        assert not lost.is_set()
        assert httpx2.get(f"{url}/jobs").status_code == 200
        assert lost.is_set()


def test_deadline_adds_no_408_to_the_answer_of_a_closing_connection(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.DEADLINE_SECONDS, "request", 0.3)
    with unread(app, "keep-alive", timeout_keep_alive=0) as (_, client, _):
        time.sleep(0.6)  # longer than the deadline of 0.3 s for the next request
        assert until_closed(client).endswith(bytes(1))


def test_listener_to_events_has_no_deadline(hurried: tuple[str, int], app: FastAPI) -> None:
    """No deadline applies to a listener that has sent its request and reads its events."""
    job = running(app.state.engine, "conv1d", {"M": 100, "N": 3})
    with Stream(f"http://{hurried[0]}:{hurried[1]}", job.id) as stream:
        events = iter(stream)
        assert next(events).kind == "state"
        time.sleep(1)
        queue.finish(app.state.engine, job.id, job.attempt, "failed", "enough")
        assert [event.kind for event in events][-1] == "state"


def test_idle_connections_exhaust_neither_descriptors_nor_the_disk(tmp_path: Path) -> None:
    """More idle connections than descriptors stop no reader and do not fill the log."""
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as said:
        service = subprocess.Popen(
            ["sh", "-c", f"ulimit -n {DESCRIPTORS} && exec {sys.executable} -m api"],
            cwd=ROOT,
            env={
                "PYTHONPATH": str(ROOT),
                "TUNER_PORT": str(port),
                "TUNER_DATABASE_URL": f"sqlite:///{tmp_path / 'service.db'}",
            },
            stderr=said,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until_up(url)
        with ExitStack() as stack:
            for _ in range(STRANGERS):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            for _ in range(5):
                assert httpx2.get(f"{url}/jobs", timeout=PATIENCE).status_code == 200
            assert len(list(Path(f"/proc/{service.pid}/fd").iterdir())) <= DESCRIPTORS
    finally:
        service.terminate()
        service.wait(PATIENCE)
    assert log.stat().st_size < 100_000
    assert all(json.loads(line) for line in log.read_text().splitlines())


def until_up(url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            httpx2.get(f"{url}/readyz").raise_for_status()
            return
        except httpx2.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
