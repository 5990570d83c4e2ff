"""Middleware that checks keys before any route runs."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.access import SAFE_METHODS, Access, is_public
from api.middleware.handlers import to_problem
from api.problems.problems import Problem
from api.web.pages import problem_page
from db.sql.errors import StorageError


class AccessMiddleware:
    """Middleware that refuses requests without the key they need.

    It wraps all routes, so that no route can be left unguarded."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        access: Access = scope["app"].state.access
        if not access.needs_check(scope):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            await access.authorize(request)
        except (Problem, StorageError) as error:
            await _refusal(request, to_problem(request, error))(scope, receive, send)
        else:
            guarded = access.requires_key_to_read and not is_public(scope["path"])
            await self.app(scope, receive, _privately(send) if guarded else send)


def _refusal(request: Request, problem: Problem) -> Response:
    """Return the problem, as a page if the client accepts HTML.

    The page has a form for a key, unless the service is at fault."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem.response(request)
    if problem.status >= 500:
        return problem_page(request, problem)
    asked = request.url
    here = f"{asked.path}?{asked.query}" if asked.query else asked.path
    back = here if request.method in SAFE_METHODS else "/"
    return problem_page(request, problem, "key.html", wrong=False, back=back)


def _privately(send: Send) -> Send:
    """Return a ``send`` that keeps the answer out of shared caches, because it needs a key."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            kept = headers.get("cache-control", "private")
            headers["cache-control"] = kept.replace("public", "private")
        await send(message)

    return sending
