"""The service: ``uvicorn api.main:app``, or ``python -m api``."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.middleware import Middleware

from api import handlers, openapi
from api.lifespan import LifespanMiddleware, lifespan_of
from api.metrics import Metrics
from api.middleware.body_limit import BodyLimitMiddleware
from api.middleware.context import ContextMiddleware
from api.middleware.head import HeadMiddleware
from api.problems import documented
from api.routes import (
    artifacts,
    best,
    docs,
    events,
    health,
    jobs,
    ladders,
    operators,
    pages,
    records,
    workers,
)
from api.settings import Settings
from api.version import VERSION

ROOMS = (pages, jobs, events, best, artifacts, operators, ladders, workers, records, docs, health)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; the database is opened, and brought to its schema, when it starts.

    Without ``settings`` the environment is read then, too."""
    metrics = Metrics()
    app = FastAPI(
        title="convtune",
        summary="A tuning service for 1-D and depthwise 2-D convolution on Apache TVM",
        version=VERSION,
        lifespan=lifespan_of(settings),
        middleware=[
            Middleware(LifespanMiddleware),
            Middleware(ContextMiddleware, metrics=metrics),
            Middleware(HeadMiddleware),
            Middleware(BodyLimitMiddleware),
        ],
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        responses=documented(422, 500, 503),
    )
    app.state.metrics = metrics
    for room in ROOMS:
        app.include_router(room.router)
    handlers.install(app)
    openapi.install(app)
    return app


app = create_app()
