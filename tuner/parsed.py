"""What a service said, as the value that it is or as the error."""

from __future__ import annotations

from typing import TypeVar

import httpx2
from pydantic import ValidationError

from tuner.answers import Answer
from tuner.errors import NotTuned, ServiceError

_NOT_TUNED = "urn:convtune:problem:not-tuned"

A = TypeVar("A", bound=Answer)


def parsed(kind: type[A], content: str | bytes, status: int, url: str, what: str) -> A:
    """``what`` was said in an answer with that status at ``url``. Raises ServiceError where it is
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


def refusal(answer: httpx2.Response) -> ServiceError:
    """An answer that was read and is no success."""
    try:
        problem = answer.json()
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        said = answer.text.strip().partition("\n")[0][:200] or answer.reason_phrase
        return ServiceError(answer.status_code, said)
    kind = NotTuned if problem.get("type") == _NOT_TUNED else ServiceError
    return kind(answer.status_code, detail, problem)
