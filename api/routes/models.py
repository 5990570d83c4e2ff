"""Routes that order, list, show and cancel models."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from sqlalchemy import Engine

from api.dependencies import EngineDep, IdempotencyKey
from api.problems.problems import problem_responses
from api.route_helpers.json_body import JsonRoute
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import Listing, PageQuery
from api.schemas.models import ModelItem, ModelView
from api.schemas.orders.model import MODEL_EXAMPLE, ModelOrderBody
from db import models

router = APIRouter(route_class=JsonRoute, tags=["models"], dependencies=[StrictQuery])

_LOCATION = {"Location": {"description": "the model", "schema": {"type": "string"}}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The model that an order with this Idempotency-Key got",
        "model": ModelView,
        "headers": _LOCATION,
    },
    201: {"description": "The new model", "headers": _LOCATION},
    **problem_responses(400, 413, 415),
}


@router.post("/models", status_code=201, summary="Order a model", responses=_ANSWERS)
def order_model(
    order: Annotated[ModelOrderBody, Body(examples=[MODEL_EXAMPLE])],
    request: Request,
    response: Response,
    engine: EngineDep,
    idempotency_key: IdempotencyKey = None,
) -> ModelView:
    """Order a model: a job for each of its workloads, all on the same terms.

    Each workload gets the job that `POST /jobs` would give it: a new one, an equal one that is
    queued or running, or the job of a stored best. Either all workloads are ordered, or none."""
    model, created = models.submit(engine, order.order(), idempotency_key)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/models/{model.id}"
    request.state.log |= {"model_id": model.id, "created": created}
    return _view(engine, model)


@router.get("/models", summary="The models, newest first")
def list_models(query: Annotated[PageQuery, Query()], engine: EngineDep) -> Listing[ModelItem]:
    """Return one page of the models, without their layers."""
    page = models.list_models(engine, query.limit, query.cursor)
    return Listing(items=[ModelItem.of(each) for each in page.items], next_cursor=page.next_cursor)


@router.get(
    "/models/{model_id}", summary="A model with its layers", responses=problem_responses(404)
)
def get_model(model_id: str, engine: EngineDep) -> ModelView:
    """Return a model with its layers: for each its job, its best and how often it is called."""
    return _view(engine, models.get(engine, model_id))


@router.post(
    "/models/{model_id}/cancel",
    status_code=202,
    summary="Cancel a model; what was measured is kept",
    responses=problem_responses(404, 409),
)
def cancel_model(model_id: str, engine: EngineDep) -> ModelView:
    """Cancel a model, and the jobs that are there for it alone.

    A job goes on if it was there before the model, if it was ordered by itself since, or if it
    belongs to another model that is not cancelled."""
    return _view(engine, models.cancel(engine, model_id))


def _view(engine: Engine, model: models.Model) -> ModelView:
    return ModelView.of(model, models.layers(engine, model))
