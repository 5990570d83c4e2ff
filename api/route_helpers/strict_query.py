"""A check of queries: each field is named once, and a route without a query gets none.

Without it, only the last field of ``state=queued&state=running`` would count, and
``POST /jobs?trials=8`` would order the default number of trials."""

from __future__ import annotations

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from starlette.datastructures import QueryParams

from api.problems.messages import FieldError, shortened, summary
from api.problems.problems import Problem


def repeated_fields(query: QueryParams) -> list[FieldError]:
    """Return an error for each field that the query names more than once."""
    return [
        FieldError(field=name, message="is given more than once; give it once")
        for name in query
        if len(query.getlist(name)) > 1
    ]


def _takes_query(dependant: Dependant) -> bool:
    return bool(dependant.query_params) or any(map(_takes_query, dependant.dependencies))


async def _refuse_stray_fields(request: Request) -> None:
    query = request.query_params
    wrong = repeated_fields(query)
    if not _takes_query(request.scope["route"].dependant):
        path = request.url.path
        message = f"is not taken here: {request.method} {path} has no query; remove it"
        wrong = [FieldError(field=shortened(name), message=message) for name in query]
    if wrong:
        raise Problem("invalid-request", summary(wrong), errors=wrong)


StrictQuery = Depends(_refuse_stray_fields)
"""The dependency that refuses a query that names a field twice, or that the route does not take."""
