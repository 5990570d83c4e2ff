"""The application on a real socket, in a thread of the test's process, and a client of streams."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI, **options: Any) -> Iterator[str]:
    """Serve the application with uvicorn and yield its URL; end open streams afterwards.

    ``options`` are uvicorn's.
    """
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, **options)
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(),))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    host, port = server.servers[0].sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        loop.call_soon_threadsafe(app.state.feeds.close)
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
        loop.close()


@dataclass(frozen=True)
class Event:
    id: str
    kind: str
    data: dict[str, Any]


class Stream:
    """A job's event stream, read from a socket as a browser's EventSource does.

    ``last`` is the id after which to resume. Iterating yields the events; comments, which keep the
    connection alive, are collected in ``comments``.
    """

    def __init__(self, url: str, job_id: str, last: str | None = None, query: str = "") -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        resume = "" if last is None else f"Last-Event-ID: {last}\r\n"
        self._socket.sendall(
            f"GET /jobs/{job_id}/events{query} HTTP/1.0\r\nHost: localhost\r\n{resume}\r\n".encode()
        )
        self._lines = self._socket.makefile("r", encoding="utf-8", newline="\n")
        self.status = int(self._lines.readline().split()[1])
        self.headers = dict(self._headers())
        self.comments: list[str] = []

    def _headers(self) -> Iterator[tuple[str, str]]:
        while line := self._lines.readline().strip():
            name, _, value = line.partition(": ")
            yield name.lower(), value

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        for line in self._lines:
            name, _, value = line.rstrip("\n").partition(": ")
            if line.startswith(":"):
                self.comments.append(line.strip())
            elif name:
                fields[name] = value
            elif fields:
                yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
                fields = {}

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
