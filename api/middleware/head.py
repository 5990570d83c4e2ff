"""Middleware that answers HEAD on every route as GET, without the body."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def bodiless(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # RFC 9110, 14.2: only GET gives a Range a meaning.
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        asked = {**scope, "method": "GET", "headers": headers}
        Request(asked).state.headers_only = True  # for event streams, which may not end
        await self.app(asked, receive, bodiless)
        scope.update({key: asked[key] for key in ("route", "path_params") if key in asked})
