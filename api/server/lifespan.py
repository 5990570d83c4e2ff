"""Startup and shutdown: settings, logs, the database. A failed start is reported in one line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import structlog
from anyio.to_thread import run_sync
from fastapi import FastAPI
from pydantic import ValidationError
from sqlalchemy import Engine
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.access import Access
from api.access.loopback import binds_loopback
from api.concurrency_limit import (
    EXPORT_WAIT_SECONDS,
    MAX_EXPORTS,
    MAX_WRITES,
    WRITE_WAIT_SECONDS,
    ConcurrencyLimit,
)
from api.events.feeds import Feeds
from api.problems.messages import FieldError, field_errors, summary
from api.route_helpers.nonblocking import open_nonblocking_engine
from api.server import logs
from api.server.exit_signals import called_on_exit_signals
from api.server.malloc import configure_malloc
from api.settings import Settings
from db.access.keys import unrevoked
from db.sql.engine import check_schema, migrate, open_engine
from db.sql.errors import StorageError
from db.sql.url import without_passwords

_log = structlog.get_logger("api.server.lifespan")


class StartupError(Exception):
    """The service can't start; the message says what to correct."""


def lifespan_of(
    settings: Settings | None,
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return an application's lifespan. It raises StartupError if the service can't start.

    If ``settings`` is None, they are read from the environment at startup, not at import."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        configure_malloc()
        used = read_settings() if settings is None else settings
        logs.configure(used.log_format)
        engine = await run_sync(_open, used)
        app.state.engine = engine
        app.state.access = Access(engine, used)
        app.state.nonblocking_engine = await run_sync(open_nonblocking_engine, engine)
        app.state.write_limit = ConcurrencyLimit("orders", MAX_WRITES, WRITE_WAIT_SECONDS)
        app.state.export_limit = ConcurrencyLimit("exports", MAX_EXPORTS, EXPORT_WAIT_SECONDS)
        feeds = app.state.feeds = Feeds(engine)
        _log.info("started", database=without_passwords(engine.url))
        with called_on_exit_signals(feeds.close):
            yield
        feeds.close()
        engine.dispose()
        if app.state.nonblocking_engine is not None:
            app.state.nonblocking_engine.dispose()
        _log.info("stopped")

    return lifespan


def read_settings() -> Settings:
    """Return the settings from the environment. Raise StartupError, which names wrong variables."""
    try:
        return Settings()
    except ValidationError as error:
        found = field_errors(error.errors(), place="environment")
        named = [
            FieldError(field=f"TUNER_{each.field.upper()}", message=each.message) for each in found
        ]
        raise StartupError(summary(named)) from error


def _open(settings: Settings) -> Engine:
    """Open the database and migrate it to the schema of this release.

    Raise StartupError if that fails, or if there is no key and the host is not loopback."""
    try:
        engine = open_engine(settings.database_url)
        migrate(engine)
        check_schema(engine)
        known = unrevoked(engine)
    except StorageError as error:
        raise StartupError(str(error)) from error
    if not known and not binds_loopback(settings.host):
        engine.dispose()
        raise StartupError(
            f"TUNER_HOST is {settings.host}, which is not loopback, and there is no key: anyone "
            "who reaches it could do everything; run `tuner keys create NAME --scope submit` with "
            "the same TUNER_DATABASE_URL first, or leave TUNER_HOST at 127.0.0.1"
        )
    return engine


class LifespanMiddleware:
    """Middleware that reports a StartupError to the server as one line, not as a traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        failed: Message | None = None

        async def held_back(message: Message) -> None:
            nonlocal failed
            if message["type"] == "lifespan.startup.failed":
                failed = message
            else:
                await send(message)

        try:
            await self.app(scope, receive, held_back)
        except StartupError as error:
            await send({"type": "lifespan.startup.failed", "message": " ".join(str(error).split())})
        except BaseException:
            if failed is not None:
                await send(failed)
            raise
