"""The best configuration for a shape on a device."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import Engine

from api.best_query import BestFilters, query_parameters
from api.conditional import matches
from api.dependencies import EngineDep, IfNoneMatch
from api.nearest import nearest
from api.problems import Problem, documented
from api.schemas.best import BestView
from db import artifacts
from db import best as bests
from db.artifacts import ArtifactInfo
from db.best import Best
from templates import operator as find_operator
from templates.workload import Workload

router = APIRouter(tags=["best"])

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"schema": {"type": "string"}}}},
    304: {"description": "Unchanged since the answer with that ETag"},
    **documented(404),
}


@router.get(
    "/best/{operator}",
    summary="The best for a shape",
    response_model=BestView,
    responses=_ANSWERS,
    openapi_extra={"parameters": query_parameters()},
)
def get_best(
    operator: str,
    request: Request,
    engine: EngineDep,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The shape comes in the query, as in `/best/conv1d?M=16384&N=32`; `GET /operators` lists the
    fields. Of several devices the fastest is the answer, and all are named."""
    workload, filters = BestFilters.read(find_operator(operator), request.query_params)
    body = _find(engine, workload, filters).model_dump_json().encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def _find(engine: Engine, workload: Workload, filters: BestFilters) -> BestView:
    asked = workload.model_dump()
    kind = None if filters.target == "auto" else filters.target
    exact = bests.lookup(engine, workload.key, kind, filters.device)
    if exact:
        return BestView.of(asked, exact, _stored(engine, exact[0]))
    if filters.match == "nearest":
        candidates = bests.candidates(engine, workload.operator, kind, filters.device)
        lenders = nearest(workload, candidates)
        if lenders:
            return BestView.of(asked, lenders, {}, match="nearest")
    raise _not_tuned(engine, workload, filters)


def _stored(engine: Engine, best: Best) -> dict[str, ArtifactInfo]:
    return {kind: artifacts.info(engine, sha256) for kind, sha256 in best.artifacts.items()}


def _not_tuned(engine: Engine, workload: Workload, filters: BestFilters) -> Problem:
    asked = workload.model_dump()
    order = {"operator": workload.operator, "workload": asked, "target": filters.target}
    shape = " ".join(f"{name}={value}" for name, value in asked.items())
    where = "" if filters.target == "auto" else f" for {filters.target}"
    if filters.device is not None:
        where += f" on {filters.device}"
    detail = f"{workload.operator} {shape} has not been tuned{where}"
    if filters.match == "nearest":
        detail += ", and no tuned shape can lend its configuration"
    elsewhere = bests.lookup(engine, workload.key) if where else []
    if elsewhere:
        detail += f" (it has on {', '.join(best.device.name for best in elsewhere)})"
    return Problem(
        "not-tuned",
        f"{detail}; POST the body in tune to /jobs and ask again once the job has succeeded",
        tune={"method": "POST", "url": "/jobs", "body": order},
    )
