"""Reading a service's answers: into typed values, or into the error that they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

import httpx2
from pydantic import ValidationError

from db.contract.job import Shown
from tuner.errors import NotTuned, ServiceError, TunerError, UntrustedSigner

_NOT_TUNED = "urn:convtune:problem:not-tuned"
_UNREGISTERED = "urn:convtune:problem:signer-not-registered"

A = TypeVar("A", bound=Shown)

MOST_BYTES = 64 << 20
"""The largest answer that is read as a whole, after decompression."""
MOST_OF_ADDRESS = 80
"""The most characters that are shown of an address which a service names."""
ENCODINGS = ("identity", "gzip")
"""The accepted content encodings. Gzip expands a piece that is read at once at most about a
thousandfold; other encodings have no such limit."""


def iter_content(answer: httpx2.Response, url: str) -> Iterator[bytes]:
    """Yield the content piece by piece, decompressed.

    Raises ServiceError if its encoding is not in ENCODINGS.
    """
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding not in ENCODINGS:
        raise unexpected_answer(
            answer.status_code, url, f"its answer is compressed by {encoding[:40]!r}"
        )
    yield from answer.iter_bytes()


def read_content(answer: httpx2.Response, url: str) -> bytes:
    """Return the whole content. Raises ServiceError if it has more than MOST_BYTES bytes."""
    content = bytearray()
    for piece in iter_content(answer, url):
        content += piece
        if len(content) > MOST_BYTES:
            why = f"its answer has more than {MOST_BYTES} bytes"
            raise unexpected_answer(answer.status_code, url, why)
    return bytes(content)


def parse(kind: type[A], content: str | bytes, status: int, url: str, what: str) -> A:
    """Parse JSON content as a value of ``kind``.

    ``status``, ``url`` and ``what`` (what the content is) are for the message. Raises ServiceError
    if the content is no such value.
    """
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise unexpected_answer(status, url, f"{what} is no {kind.__name__}") from error


def unexpected_answer(status: int | None, url: str, why: str) -> ServiceError:
    """Return the error for an answer of another program, or of another release of convtune."""
    return ServiceError(
        status, f"what answers at {url} is no convtune service that this client knows: {why}"
    )


def error_from_response(answer: httpx2.Response, content: bytes) -> ServiceError:
    """Return the error that an unsuccessful answer means, by its problem document if it has one."""
    if answer.next_request is not None:
        return _redirect_error(answer.status_code, answer.url, answer.next_request.url)
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


def artifact_error(answer: httpx2.Response, content: bytes) -> TunerError:
    """Return the error for an artifact that is not served: UntrustedSigner for the signature of a
    withdrawn key, else that of :func:`error_from_response`."""
    error = error_from_response(answer, content)
    return UntrustedSigner(str(error)) if error.type == _UNREGISTERED else error


def _redirect_error(status: int, asked: httpx2.URL, leads_to: httpx2.URL) -> ServiceError:
    """Return the error for a redirect, which is not followed: a key is for one address only."""
    here, there = _origin(asked), _origin(leads_to)
    if here == there:
        way_out = "another path of its own; give the client the address of a convtune service"
    else:
        way_out = f"{there[:MOST_OF_ADDRESS]!r}; give the client that address"
    return ServiceError(status, f"{here} redirects to {way_out}")


def _origin(url: httpx2.URL) -> str:
    """Return scheme, host and port: no user, password or path."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
