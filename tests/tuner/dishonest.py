"""A service that is not honest: it answers with what it was given, under hashes that fit."""

import hashlib
import json
from typing import Any
from urllib.request import urlopen

from tests.tuner.answering import Answering


class Hostile(Answering):
    """``best`` is the answer to any shape; ``files`` are its artifacts by kind, whose links are
    made anew of their bytes at each answer; ``keys`` are those that it says its workers sign
    with."""

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
    """The best that an honest service answers at that path, its files, and the service's keys."""

    def get(path: str) -> bytes:
        with urlopen(url + path) as answer:  # noqa: S310
            content: bytes = answer.read()
        return content

    best = json.loads(get(path))
    files = {kind: get(link["url"]) for kind, link in best["artifacts"].items()}
    return best, files, [each["public_key"] for each in json.loads(get("/signers"))["items"]]
