"""A hostile service: it serves whatever bests and files a test gives it, under matching hashes."""

import hashlib
import json
from typing import Any
from urllib.request import urlopen

from tests.tuner.answering import Answering


class Hostile(Answering):
    """A service that answers any shape with ``best``. ``files`` are the best's artifacts by kind;
    each answer computes their links, with size and SHA-256, from the current bytes. ``keys`` are
    the public keys that the service claims for its workers. A test may change all three."""

    def __init__(self, best: dict[str, Any], files: dict[str, bytes], keys: list[str]) -> None:
        super().__init__()
        self.best, self.files, self.keys = best, files, keys

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


def taken_over(url: str, path: str) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """Return the best that an honest service answers at ``path``, the best's files by kind, and the
    public keys of the service's workers."""

    def get(path: str) -> bytes:
        with urlopen(url + path) as answer:  # noqa: S310
            content: bytes = answer.read()
        return content

    best = json.loads(get(path))
    files = {kind: get(link["url"]) for kind, link in best["artifacts"].items()}
    return best, files, [each["public_key"] for each in json.loads(get("/signers"))["items"]]
