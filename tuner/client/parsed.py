"""What a service said, as the value that it is or as the error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

import httpx2
from pydantic import ValidationError

from db.contract.job import Shown
from tuner.errors import NotTuned, ServiceError

_NOT_TUNED = "urn:convtune:problem:not-tuned"

A = TypeVar("A", bound=Shown)

MOST_BYTES = 64 << 20
"""Of an answer that is read as a whole, after decompression."""
ENCODINGS = ("identity", "gzip")
"""Gzip turns a piece that is read at once into a thousand times as much at most, others into what
they like."""


def pieces(answer: httpx2.Response, url: str) -> Iterator[bytes]:
    """The content as it comes. Raises ServiceError if it is compressed otherwise than asked."""
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding not in ENCODINGS:
        raise stranger(answer.status_code, url, f"its answer is compressed by {encoding[:40]!r}")
    yield from answer.iter_bytes()


def read(answer: httpx2.Response, url: str) -> bytes:
    """The content as a whole. Raises ServiceError if there is more than MOST_BYTES of it."""
    content = bytearray()
    for piece in pieces(answer, url):
        content += piece
        if len(content) > MOST_BYTES:
            why = f"its answer has more than {MOST_BYTES} bytes"
            raise stranger(answer.status_code, url, why)
    return bytes(content)


def parsed(kind: type[A], content: str | bytes, status: int, url: str, what: str) -> A:
    """``what`` was said in an answer with that status at ``url``. Raises ServiceError if it is
    no such value."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise stranger(status, url, f"{what} is no {kind.__name__}") from error


def stranger(status: int | None, url: str, why: str) -> ServiceError:
    """Something answers, and it is another program or another release."""
    return ServiceError(
        status, f"what answers at {url} is no convtune service that this client knows: {why}"
    )


def refusal(answer: httpx2.Response, content: bytes) -> ServiceError:
    """What an answer says that is no success."""
    try:
        problem = json.loads(content)
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = content.decode(errors="replace").strip()
        return ServiceError(
            answer.status_code, text.partition("\n")[0][:200] or answer.reason_phrase
        )
    kind = NotTuned if problem.get("type") == _NOT_TUNED else ServiceError
    return kind(answer.status_code, detail, problem)
