"""A proxy that passes everything on, and the bytes of a library as the test wants them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import urlopen


class Meddler(ThreadingHTTPServer):
    """``paths`` are those that were asked for."""

    daemon_threads = True

    def __init__(self, upstream: str, meddle: Callable[[bytes], bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.meddle = upstream, meddle
        self.paths: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Meddler

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        with urlopen(self.server.upstream + self.path) as answer:  # noqa: S310
            content = answer.read()
        if content.startswith(b"\x7fELF"):
            content = self.server.meddle(content)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def meddling(upstream: str, meddle: Callable[[bytes], bytes]) -> Iterator[Meddler]:
    with Meddler(upstream, meddle) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
