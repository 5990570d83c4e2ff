"""Routes that order, list, show and cancel jobs, and list their trials."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response

from api.dependencies import EngineDep, IdempotencyKey
from api.problems.problems import problem_responses
from api.route_helpers.job_views import job_view, job_views
from api.route_helpers.json_body import JsonRoute
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import Listing
from api.schemas.jobs import JobsQuery, JobView, TrialsQuery
from api.schemas.orders.job import ORDER_EXAMPLES, Order
from api.schemas.trials import TrialView
from db import queue
from db.contract.order import JobFilter
from db.results import trials

router = APIRouter(route_class=JsonRoute, tags=["jobs"], dependencies=[StrictQuery])

_LOCATION = {"Location": {"description": "the job", "schema": {"type": "string"}}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "An equal job, queued, running or already succeeded",
        "model": JobView,
        "headers": _LOCATION,
    },
    201: {"description": "The new job", "headers": _LOCATION},
    **problem_responses(400, 413, 415),
}


@router.post("/jobs", status_code=201, summary="Order a job", responses=_ANSWERS)
def order_job(
    order: Annotated[Order, Body(discriminator="operator", openapi_examples=ORDER_EXAMPLES)],
    request: Request,
    response: Response,
    engine: EngineDep,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Order a job that tunes a workload.

    If an equal job is queued or running, that job is the answer, with status 200. So is the job of
    a stored best that is good enough for the order, unless `on_existing` is `retune`."""
    job, created = queue.submit(engine, order.order(), idempotency_key)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/jobs/{job.id}"
    request.state.log |= {"job_id": job.id, "created": created}
    return job_view(engine, job)


@router.get("/jobs", summary="The jobs, newest first")
def list_jobs(query: Annotated[JobsQuery, Query()], engine: EngineDep) -> Listing[JobView]:
    """Return one page of the jobs that pass all filters of the query."""
    page = queue.list_jobs(engine, JobFilter.of(vars(query)), query.limit, query.cursor)
    return Listing(items=job_views(engine, page.items), next_cursor=page.next_cursor)


@router.get("/jobs/{job_id}", summary="A job", responses=problem_responses(404))
def get_job(job_id: str, engine: EngineDep) -> JobView:
    """Return a job: its order, its state and how far it is."""
    return job_view(engine, queue.get(engine, job_id))


@router.post(
    "/jobs/{job_id}/cancel",
    status_code=202,
    summary="Cancel a job; what was measured is kept",
    responses=problem_responses(404, 409),
)
def cancel_job(job_id: str, engine: EngineDep) -> JobView:
    """Cancel a job. A queued job ends at once, a running one as soon as its worker hears of it."""
    return job_view(engine, queue.cancel(engine, job_id))


@router.get(
    "/jobs/{job_id}/trials",
    summary="A job's trials, first to last",
    responses=problem_responses(404),
)
def list_trials(
    job_id: str, query: Annotated[TrialsQuery, Query()], engine: EngineDep
) -> Listing[TrialView]:
    """Return one page of a job's trials, in the order in which they were measured."""
    page = trials.list_trials(engine, job_id, query.status, query.limit, query.cursor)
    return Listing[TrialView].model_validate(page)
