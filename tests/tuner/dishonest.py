"""A service that is not honest: it answers with what it was given, under hashes that fit."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.request import urlopen


class Hostile(ThreadingHTTPServer):
    """``best`` is the answer to any shape; ``files`` are its artifacts by kind, whose links are
    made anew of their bytes at each answer; ``keys`` are those that it says its workers sign with.
    ``paths`` are those that were asked for."""

    daemon_threads = True

    def __init__(self, best: dict[str, Any], files: dict[str, bytes], keys: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.best, self.files, self.keys = best, files, keys
        self.paths: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str) -> bytes:
        by_name = {hashlib.sha256(content).hexdigest(): content for content in self.files.values()}
        if path.startswith("/artifacts/"):
            return by_name[path.rpartition("/")[2]]
        if path == "/signers":
            made = {"host": "evil", "created_at": "2025-11-20T16:00:00Z"}
            return json.dumps(
                {"items": [{"public_key": key, **made} for key in self.keys]}
            ).encode()
        links = {
            kind: {"url": f"/artifacts/{sha256}", "sha256": sha256, "size": len(content)}
            for kind, content in self.files.items()
            for sha256 in [hashlib.sha256(content).hexdigest()]
        }
        return json.dumps(self.best | {"artifacts": links}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Hostile

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        content = self.server.answer(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


def taken_over(url: str, path: str) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """The best that an honest service answers at that path, its files, and the service's keys."""

    def get(path: str) -> bytes:
        with urlopen(url + path) as answer:  # noqa: S310
            content: bytes = answer.read()
        return content

    best = json.loads(get(path))
    files = {kind: get(link["url"]) for kind, link in best["artifacts"].items()}
    return best, files, [each["public_key"] for each in json.loads(get("/signers"))["items"]]


@contextmanager
def serving(best: dict[str, Any], files: dict[str, bytes], keys: list[str]) -> Iterator[Hostile]:
    with Hostile(best, files, keys) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
