"""A query names each field once: of ``state=queued&state=running`` only the last would count. A
route that takes no query gets none: ``POST /jobs?trials=8`` would order as many as usual."""

from __future__ import annotations

from fastapi import Depends, Request
from starlette.datastructures import QueryParams

from api.problems.messages import FieldError, shown_name, summary
from api.problems.problems import Problem


def repeated(query: QueryParams) -> list[FieldError]:
    return [
        FieldError(field=name, message="is given more than once; give it once")
        for name in query
        if len(query.getlist(name)) > 1
    ]


async def _given_once(request: Request) -> None:
    query = request.query_params
    wrong = repeated(query)
    if not request.scope["route"].dependant.query_params:
        path = request.url.path
        message = f"is not taken here: {request.method} {path} has no query; remove it"
        wrong = [FieldError(field=shown_name(name), message=message) for name in query]
    if wrong:
        raise Problem("invalid-request", summary(wrong), errors=wrong)


GIVEN_ONCE = Depends(_given_once)
"""Refuses a query that names a field twice, or that a route does not take."""
