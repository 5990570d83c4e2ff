"""Middleware that gives each request an id and a log line, and turns a crash into a problem."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any
from uuid import uuid4

import structlog
from anyio import BrokenResourceError
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import Metrics
from api.problems.problems import Problem

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
CLIENT_LEFT = 499
"""The status, in log and metrics, of a client that left before its answer. It is nginx's."""
CANCELLED = 500
"""The status with which uvicorn answers a request that it cancels, because the service stops."""
_PROBES = {"/healthz", "/readyz", "/metrics"}
_log = structlog.get_logger("api.request")


class ContextMiddleware:
    """Middleware that identifies, logs and times each request.

    A well-formed ``X-Request-ID`` is kept. Otherwise the middleware makes an id. Every answer has
    the id."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        given = request.headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        request.state.request_id = request_id
        request.state.log = {}
        started, status = time.perf_counter(), 0
        streaming_since: float | None = None

        async def tagged(message: Message) -> None:
            nonlocal status, streaming_since
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                if headers.get("content-type", "").startswith("text/event-stream"):
                    streaming_since = time.perf_counter()
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self.app(scope, receive, tagged)
            except ClientDisconnect:  # while its body was read: nobody waits for an answer
                status = CLIENT_LEFT
            except asyncio.CancelledError:
                status = status or CANCELLED
                raise
            except Exception as error:
                if status and _listener_left(error):
                    return
                _log.exception("request_failed", **_asked(scope))
                if status:
                    raise
                problem = Problem(
                    "internal-error",
                    f"the service failed; its log names this request {request_id}; try again, "
                    "and report it if it happens again",
                )
                await problem.response(request)(scope, receive, tagged)
            finally:
                ended = time.perf_counter()
                answered = (streaming_since or ended) - started
                self.metrics.observe(scope["method"], _route(scope), status, answered)
                _write_line(scope, request, status, ended - started)


def _listener_left(error: Exception) -> bool:
    """Return whether FastAPI raised this because a listener left before an event was sent."""
    if isinstance(error, ExceptionGroup):
        return all(_listener_left(each) for each in error.exceptions)
    return isinstance(error, BrokenResourceError)


def _route(scope: Scope) -> str:
    """Return the path as declared, or "unmatched": with ids in it, each path would be a label."""
    return getattr(scope.get("route"), "path", "unmatched")


def _write_line(scope: Scope, request: Request, status: int, seconds: float) -> None:
    """Log the request, unless it is a probe that succeeded."""
    if scope["path"] in _PROBES and status == 200:
        return
    took = {"status": status, "ms": round(seconds * 1000, 2)}
    said = _asked(scope) | took | request.state.log
    (_log.error if status >= 500 else _log.info)("request", **said)


def _asked(scope: Scope) -> dict[str, Any]:
    named: dict[str, Any] = scope.get("path_params", {})  # a job's id, above all
    return named | {"method": scope["method"], "path": scope["path"]}
