"""The ASGI application with its routes and middleware: ``uvicorn api.main:app``."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.middleware import Middleware

from api.metrics import Metrics
from api.middleware import handlers
from api.middleware.access import AccessMiddleware
from api.middleware.body_limit import BodyLimitMiddleware
from api.middleware.compression import CompressionMiddleware
from api.middleware.context import ContextMiddleware
from api.middleware.head import HeadMiddleware
from api.middleware.headers import HeadersMiddleware
from api.openapi import document
from api.problems.problems import problem_responses
from api.routes import (
    artifacts,
    best,
    events,
    health,
    jobs,
    ladders,
    models,
    operators,
    records,
    signers,
    workers,
)
from api.routes.html import docs, keys, pages, static
from api.routes.html import models as model_pages
from api.server.lifespan import LifespanMiddleware, lifespan_of
from api.settings import Settings
from api.version import VERSION

ROUTE_MODULES = (
    best,
    pages,
    model_pages,
    static,
    jobs,
    models,
    events,
    artifacts,
    operators,
    ladders,
    workers,
    signers,
    records,
    keys,
    docs,
    health,
)


ROUTES = APIRouter(responses=problem_responses(401, 403, 422, 429, 500, 503))
"""The routes. All applications of a process share them, because FastAPI takes a tenth of a second
to make their models when they are first used."""
for module in ROUTE_MODULES:
    ROUTES.include_router(module.router)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application. It opens and migrates the database when it starts, not before.

    Without ``settings``, it also reads them from the environment when it starts."""
    metrics = Metrics()
    app = FastAPI(
        title="convtune",
        summary="A tuning service for 1-D and depthwise 2-D convolution on Apache TVM",
        version=VERSION,
        lifespan=lifespan_of(settings),
        middleware=[
            Middleware(LifespanMiddleware),
            Middleware(HeadersMiddleware),
            Middleware(ContextMiddleware, metrics=metrics),
            Middleware(HeadMiddleware),
            Middleware(CompressionMiddleware),
            Middleware(BodyLimitMiddleware),
            Middleware(AccessMiddleware),
        ],
        redirect_slashes=False,
        openapi_url=None,  # api/routes/html/docs.py serves the document
        docs_url=None,
        redoc_url=None,
        routes=ROUTES.routes,
    )
    app.state.metrics = metrics
    handlers.install(app)
    document.install(app)
    return app


app = create_app()
