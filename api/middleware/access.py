"""Middleware that asks for keys before any route runs."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.access import SAFE_METHODS, Access, is_public
from api.middleware.handlers import storage_problem
from api.problems.problems import Problem
from api.web.pages import render
from db.sql.errors import StorageError


class AccessMiddleware:
    """Middleware that refuses requests without the key they need.

    It stands around all routes, so that none can be left unguarded."""

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
        except Problem as problem:
            await _refusal(request, problem)(scope, receive, send)
        except StorageError as error:
            request.state.log["error"] = str(error)
            await storage_problem(request, error).response(request)(scope, receive, send)
        else:
            guarded = access.requires_key_to_read and not is_public(scope["path"])
            await self.app(scope, receive, _privately(send) if guarded else send)


def _refusal(request: Request, problem: Problem) -> Response:
    """Return the problem; for a client that takes HTML, a page on which people give their key."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem.response(request)
    asked = request.url
    here = f"{asked.path}?{asked.query}" if asked.query else asked.path
    back = here if request.method in SAFE_METHODS else "/"
    page = render(request, "key.html", problem.status, problem=problem, wrong=False, back=back)
    page.headers.update(problem.headers or {})
    return page


def _privately(send: Send) -> Send:
    """Return a ``send`` that lets no shared cache keep the answer, because it needs a key."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            kept = headers.get("cache-control", "private")
            headers["cache-control"] = kept.replace("public", "private")
        await send(message)

    return sending
