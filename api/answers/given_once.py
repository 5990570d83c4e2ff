"""A query names each field once: of ``state=queued&state=running`` only the last would count."""

from __future__ import annotations

from fastapi import Depends, Request
from starlette.datastructures import QueryParams

from api.problems.messages import FieldError, summary
from api.problems.problems import Problem


def repeated(query: QueryParams) -> list[FieldError]:
    return [
        FieldError(field=name, message="is given more than once; give it once")
        for name in query
        if len(query.getlist(name)) > 1
    ]


async def _given_once(request: Request) -> None:
    wrong = repeated(request.query_params)
    if wrong:
        raise Problem("invalid-request", summary(wrong), errors=wrong)


GIVEN_ONCE = Depends(_given_once)
"""Refuses a query that names a field twice."""
