"""Bodies over the limit are refused while they are read, not after."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import Problem

MAX_BODY_BYTES = 64 * 1024


def body_too_large() -> Problem:
    return Problem(
        "body-too-large",
        f"a body may have at most {MAX_BODY_BYTES} bytes; no order needs more",
        headers={"Connection": "close"},
    )


class BodyLimitMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = Request(scope).headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 15 or int(announced) > MAX_BODY_BYTES):
            await body_too_large().response(Request(scope))(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise HTTPException(413)  # of all that a body may raise, FastAPI keeps only this
            return message

        await self.app(scope, limited, send)
