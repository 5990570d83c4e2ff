"""Middleware that refuses bodies over the limit while they are read, not after."""

from __future__ import annotations

from anyio import move_on_after
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems.problems import Problem

MAX_BODY_BYTES = 64 * 1024
MAX_MODEL_BYTES = 256 * 1024
MAX_LOG_BYTES = 8 * 1024 * 1024
LINGER_BYTES = 16 * 1024 * 1024
LINGER_SECONDS = 1.0
"""Limits for reading the rest of a body that the answer does not need. Otherwise a client that
sends the whole body before it reads would see a reset connection instead of the answer."""

_MORE = {("POST", "/models"): MAX_MODEL_BYTES, ("POST", "/records"): MAX_LOG_BYTES}
"""The routes that take larger bodies: orders of many workloads, and logs."""


def body_too_large(request: Request) -> Problem:
    """Return the problem of a body over its route's limit."""
    limit = _limit(request.scope)
    way_out = "split the log" if limit == MAX_LOG_BYTES else "no order needs more"
    return Problem(
        "body-too-large",
        f"a body may have at most {limit} bytes; {way_out}",
        headers={"Connection": "close"},
    )


def _limit(scope: Scope) -> int:
    return _MORE.get((scope["method"], scope["path"]), MAX_BODY_BYTES)


class BodyLimitMiddleware:
    """Middleware that counts the bytes of a body; it trusts Content-Length only to refuse early."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, limit = Request(scope), _limit(scope)
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 15 or int(announced) > limit):
            await _is_discarded(request, receive)
            await body_too_large(request).response(request)(scope, receive, send)
            return
        received, coming = 0, announced not in {"", "0"} or "transfer-encoding" in request.headers

        async def limited() -> Message:
            nonlocal received, coming
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise body_too_large(request)
            coming = message.get("more_body", False)
            return message

        async def answering(message: Message) -> None:
            is_start = message["type"] == "http.response.start"
            if is_start and coming and not await _is_discarded(request, receive):
                # otherwise the server would read the rest, however long the client sends
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await self.app(scope, limited, answering)


async def _is_discarded(request: Request, receive: Receive) -> bool:
    """Discard the rest of the body, up to the limits above. Return whether its end was reached."""
    left = 0 if "expect" in request.headers else LINGER_BYTES  # reading would send 100 Continue
    with move_on_after(LINGER_SECONDS):
        while left > 0:
            message = await receive()
            if not message.get("more_body", False):
                return True
            left -= len(message.get("body", b""))
    return False
