"""Limits on concurrent orders and exports: clients that keep the service busy block no reader."""

import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from live import served
from service_rows import long_log

from api.concurrency_limit import MAX_EXPORTS, MAX_WRITES, ConcurrencyLimit
from api.main import create_app
from api.settings import Settings
from tests.no_tls import NO_TLS

get, post = (partial(each, verify=NO_TLS) for each in (httpx2.get, httpx2.post))
ORDERS = 60
READ_SECONDS = 10.0
"""Time limit of a read: a third of the longest time for which an order waits for the lock."""


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    with served(app) as found:
        yield found


def order(url: str, length: int) -> int:
    """Order a job and return the status of the answer."""
    asked = {"operator": "conv1d", "workload": {"M": length, "N": 3}}
    return post(f"{url}/jobs", json=asked, timeout=60).status_code


def test_orders_waiting_for_the_write_lock_do_not_block_readers(
    url: str, app: FastAPI, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(ORDERS) as customers:
        with closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            orders = [customers.submit(order, url, 100 + n) for n in range(ORDERS)]
            for path in ("/jobs", "/workers", "/readyz", "/jobs"):
                assert get(url + path, timeout=READ_SECONDS).status_code == 200
            assert not any(each.done() for each in orders)
            writer.execute("ROLLBACK")
        assert {each.result() for each in orders} == {201}
    assert len(get(f"{url}/jobs?limit=100").json()["items"]) == ORDERS


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/jobs", "application/json"),
        ("/jobs/nearest", "application/json"),
        ("/records", "application/x-ndjson"),
        ("/ui/jobs", "application/x-www-form-urlencoded"),
        (f"/ui/jobs/{'0' * 32}/cancel", "application/x-www-form-urlencoded"),
    ],
)
def test_client_that_sends_slowly_holds_no_write_slot(url: str, path: str, kind: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
    head += f"Content-Type: {kind}\r\nContent-Length: 100\r\n\r\na"
    with ExitStack() as stack:
        for _ in range(2 * MAX_WRITES):
            slow = stack.enter_context(socket.create_connection(address(url)))
            slow.sendall(head.encode())
        assert order(url, 100) == 201


def address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def test_export_beyond_the_limit_waits_or_gets_503(url: str, app: FastAPI) -> None:
    long_log(app.state.engine)
    app.state.export_limit = ConcurrencyLimit("exports", MAX_EXPORTS, 0.2)
    with ExitStack() as stack:
        for _ in range(MAX_EXPORTS):
            idle = stack.enter_context(socket.create_connection(address(url)))
            idle.sendall(b"GET /records HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(15) == b"HTTP/1.1 200 OK"
        refused = get(f"{url}/records")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["type"].endswith(":busy")
        assert "at most 2 exports" in refused.json()["detail"]
        assert get(f"{url}/jobs", timeout=READ_SECONDS).status_code == 200
    app.state.export_limit = ConcurrencyLimit("exports", MAX_EXPORTS, READ_SECONDS)
    with ThreadPoolExecutor(12) as readers:
        for answer in readers.map(lambda _: get(f"{url}/records?status=ok"), range(24)):
            assert answer.status_code == 200


def test_slot_is_released_after_an_error_or_a_lost_client(database_url: str) -> None:
    app = create_app(Settings(database_url=database_url))
    with served(app) as url:
        app.state.export_limit = ConcurrencyLimit("exports", 1, READ_SECONDS)
        app.state.write_limit = ConcurrencyLimit("orders", 1, READ_SECONDS)
        for _ in range(3):
            assert get(f"{url}/records?job={'0' * 32}").status_code == 404
            assert post(f"{url}/jobs/{'0' * 32}/cancel").status_code == 404
            assert order(url, 0) == 422
            with socket.create_connection(address(url)) as gone:
                gone.sendall(b"GET /records HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert get(f"{url}/records").status_code == 200
        assert order(url, 100) == 201
