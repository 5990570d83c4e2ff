"""HTTP servers with made-up answers, each of which runs in a thread of the test's process."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)


class Answering(ThreadingHTTPServer):
    """A server that answers each GET with status 200 and the bytes that :meth:`answer` returns for
    its path. ``paths`` lists the requested paths in order. Subclasses define :meth:`answer`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str) -> bytes:
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        content = self.server.answer(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run the server in a thread for the length of the block; yield the server."""
    with server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
