"""A client that is shared by the processes of a fork, or by threads."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from types import SimpleNamespace
from typing import Any

import httpx2

from tests.tuner.answering import running
from tuner.client.listening import JobListener

FORKED = """
import os, sys
from tuner.client import Client
from tuner.errors import ServiceError

client = Client(sys.argv[1])

def ask(who):
    try:
        client.job(who)
    except ServiceError as error:
        assert error.status == 404

ask("before")
child = os.fork()
ask("child" if child == 0 else "parent")
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


class Refusing(BaseHTTPRequestHandler):
    """Answers that no job is found, over connections that stay open."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        self.server.ports[self.path] = self.client_address[1]
        content = json.dumps({"title": "Not Found", "status": 404, "detail": "none"}).encode()
        self.send_response(404)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


def test_forked_process_asks_over_a_connection_of_its_own() -> None:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.daemon_threads, server.ports = True, {}
    with running(server):
        url = f"http://127.0.0.1:{server.server_port}"
        subprocess.run([sys.executable, "-c", FORKED, url], check=True, timeout=60)
    ports = server.ports
    assert ports["/jobs/parent"] == ports["/jobs/before"] != ports["/jobs/child"]


class Ending(BaseHTTPRequestHandler):
    """Ends the first stream of events at once, and holds every other answer back."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        if self.path == "/other":
            self.server.asked.set()
        if self.server.ended.is_set():
            self.server.go_on.wait(30)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.ended.set()

    def log_message(self, *_: object) -> None: ...


def test_end_of_a_wait_leaves_requests_of_other_threads_alone() -> None:
    """The end cuts the stream's connection off, which may have been free for another request."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Ending)
    server.daemon_threads = True
    server.asked, server.ended, server.go_on = Event(), Event(), Event()
    seen: Any = SimpleNamespace(
        links=SimpleNamespace(events="/events"), trials=SimpleNamespace(ok=0)
    )
    with running(server), ThreadPoolExecutor() as pool:
        url = f"http://127.0.0.1:{server.server_port}"
        with httpx2.Client(base_url=url) as http:
            with JobListener(http, url, seen):
                assert server.ended.wait(30)
                time.sleep(0.03)  # until the listener has read the stream's end
                other = pool.submit(http.get, "/other")
                assert server.asked.wait(30)
            server.go_on.set()
            assert other.result().is_success
