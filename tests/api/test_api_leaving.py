"""Clients that leave while they listen or send a body: the log shows no failure.

If a request fails, its traceback in the log shows no values of variables, which may be keys.
"""

import json
import logging
import socket
import time
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog
from fastapi import FastAPI
from live import Stream, served
from service_rows import GPU, new_trial, running

from api.server import logs
from db.fleet import devices
from db.results import trials

HALF_A_BODY = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
MANY = 3000  # trials, whose events are more than the buffers of the sockets hold


@pytest.fixture
def restored_logs() -> Iterator[None]:
    """Undo what the application did to uvicorn's loggers."""
    yield
    for name in ("uvicorn", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate, logger.disabled = [], True, False


def test_listener_that_leaves_with_unsent_events_logs_no_error(
    app: FastAPI, capsys: pytest.CaptureFixture[str], restored_logs: None
) -> None:
    with served(app) as url:
        engine = app.state.engine
        device = devices.upsert_device(engine, GPU)
        job = running(engine, "conv1d", {"M": 100, "N": 3}, trials=MANY)
        new = [new_trial(device, number) for number in range(MANY)]
        trials.add(engine, job.id, job.attempt, new)
        for _ in range(5):
            with Stream(url, job.id) as stream:
                next(iter(stream))
                time.sleep(0.1)  # meanwhile the buffers fill and the service can send no more
        deadline = time.monotonic() + 10
        while app.state.feeds.listeners:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if line["level"] != "info"] == []
    assert [line["status"] for line in lines if line["event"] == "request"] == [200] * 5


@pytest.mark.parametrize(("path", "status"), [("/jobs", 400), ("/records", 499)])
def test_client_that_leaves_while_sending_a_body_logs_no_error(
    path: str, status: int, app: FastAPI, capsys: pytest.CaptureFixture[str], restored_logs: None
) -> None:
    with served(app) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\n".encode() + HALF_A_BODY)
            time.sleep(0.1)  # until the service waits for the rest
        deadline, written = time.monotonic() + 10, ""
        while "ms" not in written:
            assert time.monotonic() < deadline
            time.sleep(0.01)
            written += capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    assert {line["level"] for line in lines} == {"info"}
    assert [line["status"] for line in lines if line["event"] == "request"] == [status]


def test_request_cut_off_by_a_stop_is_logged_with_its_status(
    app: FastAPI, capsys: pytest.CaptureFixture[str], restored_logs: None
) -> None:
    with socket.socket() as late:
        with served(app, timeout_graceful_shutdown=1) as url:
            host, _, port = url.removeprefix("http://").partition(":")
            late.connect((host, int(port)))
            late.sendall(f"POST /jobs HTTP/1.1\r\nHost: {host}\r\n".encode() + HALF_A_BODY)
            time.sleep(0.1)  # until the service waits for the rest
        status = int(late.recv(12).split()[1])
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["status"] for line in lines if line["event"] == "request"] == [status]
    assert f'status="{status}"' in app.state.metrics.render(app.state.engine, 0).decode()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_traceback_in_the_log_shows_no_values_of_variables(
    log_format: Literal["json", "console"],
    capsys: pytest.CaptureFixture[str],
    restored_logs: None,
) -> None:
    logs.configure(log_format)
    key = "-".join(("ct_a", "secret"))  # joined, so that no line of the source shows it

    def admit(token: str) -> None:
        raise RuntimeError(f"{len(token)} characters")

    try:
        admit(key)
    except RuntimeError:
        structlog.get_logger().exception("failed")
        logging.getLogger("uvicorn.error").exception("failed too")
    written = capsys.readouterr().err
    assert key not in written
    assert written.count("11 characters") == 2
    assert written.count("in admit") + written.count('"name": "admit"') == 2
