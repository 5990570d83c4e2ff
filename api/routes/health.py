"""Routes about the service itself: an index of all routes, probes, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from api.dependencies import EngineDep
from api.events.feeds import Feeds
from api.metrics import Metrics
from api.schemas.service import Health, Index
from api.version import VERSION
from db.sql.engine import check_schema

router = APIRouter(tags=["service"])


@router.get("/", summary="The index of all routes")
def index(request: Request) -> Index:
    """Return the service's version, and what each of its routes is for."""
    paths = request.app.openapi()["paths"]
    routes = {
        f"{method.upper()} {path}": operation["summary"]
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    return Index(service="convtune", version=VERSION, routes=routes)


@router.get("/healthz", summary="Whether the process is up")
async def healthz() -> Health:  # async, so that it answers even if all threads are busy
    """Return 200 while the process can answer at all; the database is not asked."""
    return Health()


@router.get("/readyz", summary="Whether the database is reachable and has the right schema")
def readyz(engine: EngineDep) -> Health:
    """Return 200 if the database answers and has the schema of this release, otherwise 503."""
    check_schema(engine)
    return Health()


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    responses={
        200: {
            "content": {
                "text/plain": {"schema": {"type": "string"}, "example": "convtune_jobs 1.0\n"}
            }
        }
    },
)
def metrics(request: Request, engine: EngineDep) -> Response:
    """Return jobs, trials, workers and times of requests in Prometheus' text format."""
    kept: Metrics = request.app.state.metrics
    feeds: Feeds = request.app.state.feeds
    return Response(kept.render(engine, feeds.listeners), media_type=CONTENT_TYPE_LATEST)
