"""Middleware that adds the security headers of every answer.

It adds no CORS headers, so pages of other origins can't read any answer."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # pages send their own
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class HeadersMiddleware:
    """Middleware that adds each of SECURITY_HEADERS that an answer does not set itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message["headers"])
                names = {name for name, _ in given}
                added = [header for header in _RAW if header[0] not in names]
                message = {**message, "headers": given + added}
            await send(message)

        await self.app(scope, receive, guarded)
