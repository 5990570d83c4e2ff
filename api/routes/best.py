"""Routes of the best configuration for a shape on a device."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response
from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool

from api.dependencies import EngineDep
from api.problems.problems import Problem, problem_responses
from api.route_helpers.best_query import BestFilters
from api.route_helpers.conditional import matches, weak_etag
from api.route_helpers.job_views import job_view
from api.route_helpers.json_body import JsonRoute
from api.route_helpers.nearest import UNSEARCHED, nearest_bests, verification_order
from api.route_helpers.nonblocking import read_nonblocking
from api.route_helpers.strict_query import StrictQuery
from api.schemas.best import BestView, Call
from api.schemas.jobs import JobView
from api.schemas.orders.nearest import EXAMPLES, NearestOrder
from db import queue
from db.contract.best import Neighbour
from db.contract.order import PREDICTED, PREDICTION
from db.fleet.devices import device_name, kinds_named
from db.queue.waiting import devices_and_waiting_reasons, pending_job_for
from db.records import listed
from db.results import best as bests
from db.results.best import Best
from templates import operator as find_operator
from templates.workload import Workload, in_text

router = APIRouter(route_class=JsonRoute, tags=["best"])

NO_LENDER = ", and no tuned shape can lend its configuration"

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"schema": {"type": "string"}}}},
    304: {"description": "Unchanged since the answer with that ETag"},
    **problem_responses(404),
}
_ORDERED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The job that made the shape's best, or an equal one", "model": JobView},
    201: {"description": "The new job"},
    **problem_responses(400, 404, 413, 415),
}


@router.get(
    "/best/{operator}",
    summary="The best for a shape",
    response_model=BestView,
    responses=_ANSWERS,
)
async def get_best(operator: str, request: Request) -> Response:
    """Return the best configuration for a shape.

    The query has the shape, as in `/best/conv1d?M=16384&N=32`; `GET /operators` lists the fields.
    If several devices have a best, the answer is that of the fastest device, and names all of them.

    With `match=nearest`, a shape that has not been tuned gets the configuration of the closest
    tuned shape whose configuration is valid for it. It is not `verified` before a worker has built,
    checked and timed it for this shape. To have that done, send the request in `verify`, and ask
    again once its job has succeeded.

    With `match=predicted`, the request in `tune` of a 404 orders a short job instead of a search: a
    worker builds, checks and times the few configurations that a ranker, trained on other shapes,
    expects to be fastest. The best of them is then the answer for the shape, as `predicted`, until
    a search has found one."""
    workload, filters = BestFilters.read(find_operator(operator), request.query_params)
    view = await read_nonblocking(
        request.app, partial(_exact_view, workload=workload, filters=filters)
    )
    if view is None:
        view = await run_in_threadpool(_nearest_view, request.app.state.engine, workload, filters)
    body = view.model_dump_json().encode()
    etag = weak_etag(hashlib.sha256(body).hexdigest()[:32])
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


@router.post(
    "/jobs/nearest",
    status_code=201,
    summary="Have the nearest configuration verified",
    responses=_ORDERED,
    dependencies=[StrictQuery],
)
def verify_nearest(
    order: Annotated[NearestOrder, Body(discriminator="operator", openapi_examples=EXAMPLES)],
    request: Request,
    response: Response,
    engine: EngineDep,
) -> JobView:
    """Order a job that verifies the nearest configuration for a shape.

    A worker builds, checks and times the configuration that `GET /best/{operator}?match=nearest`
    names for this shape: one trial, no search. Once the job has succeeded, that answer is verified,
    and has a time and a library. If the shape has a best already, the answer is that best's job."""
    there = order.for_device
    kinds = set() if there is None else kinds_named(engine, there)
    filters = BestFilters(
        target=kinds.pop() if order.target == "auto" and len(kinds) == 1 else order.target,
        device=order.device,
        threads=order.threads,
        parallel=order.parallel,
        templates=None if order.templates is None else ",".join(order.templates),
    )
    exact = _on_device(_own_bests(engine, order.workload, filters), there)
    if exact:
        job, created = queue.get(engine, exact[0].job_id), False
    else:
        lenders = _lenders(engine, order.workload, filters, there)
        lender = (_on_device(lenders, there) or lenders)[0]
        wanted = verification_order(order.workload, lender, filters.names, there)
        [(job, created)] = listed.submit(engine, [wanted])
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/jobs/{job.id}"
    request.state.log |= {"job_id": job.id, "created": created}
    return job_view(engine, job)


def _on_device(found: list[Best], name: str | None) -> list[Best]:
    """Return the bests on a device of this name, or all of them if ``name`` is None."""
    return [best for best in found if name in (None, best.device.name)]


def _exact_view(engine: Engine, workload: Workload, filters: BestFilters) -> BestView | None:
    """Return the view of the shape's own bests; None if it has none."""
    found = _own_bests(engine, workload, filters)
    if not found:
        return None
    return BestView.of(workload.model_dump(), found, _lender(engine, found[0]))


def _nearest_view(engine: Engine, workload: Workload, filters: BestFilters) -> BestView:
    """Return the view of the nearest shape's bests.

    Raise Problem if the request does not ask for a nearest match, or if there is none."""
    if filters.match != "nearest":
        raise _not_tuned(engine, workload, filters)
    lenders = _lenders(engine, workload, filters)
    asked = workload.model_dump()
    body: dict[str, Any] = {
        "operator": workload.operator,
        "workload": asked,
        "target": filters.target,
    }
    if filters.device is not None:
        body["device"] = filters.device
    if filters.names is not None:
        body["templates"] = list(filters.names)
    if filters.threads is not None:
        body["threads"] = filters.threads
    if filters.parallel:
        body["parallel"] = True
    return BestView.lent(asked, lenders, Call(method="POST", url="/jobs/nearest", body=body))


def _own_bests(engine: Engine, workload: Workload, filters: BestFilters) -> list[Best]:
    """Return the shape's own bests that pass the filters, fastest first."""
    return bests.lookup(
        engine,
        workload.key,
        filters.kind,
        filters.device,
        filters.names,
        filters.threads,
        parallel=filters.parallel,
    )


def _lenders(
    engine: Engine, workload: Workload, filters: BestFilters, for_device: str | None = None
) -> list[Best]:
    """Return the nearest shape's bests that pass the filters, fastest first.

    Raise Problem if no tuned shape can lend its configuration; the order that it names is for the
    device ``for_device``."""
    candidates = bests.bests_of_operator(
        engine,
        workload.operator,
        filters.kind,
        filters.device,
        filters.names,
        filters.threads,
        parallel=filters.parallel,
        without=UNSEARCHED,
    )
    lenders = nearest_bests(workload, candidates)
    if not lenders:
        raise _not_tuned(engine, workload, filters, NO_LENDER, for_device)
    return lenders


def _lender(engine: Engine, best: Best) -> Neighbour | None:
    """Return the neighbour whose configuration this best verifies; None if it verifies none."""
    if best.search != listed.NEIGHBOUR:
        return None
    [lent] = listed.of_job(engine, best.job_id)
    return Neighbour(workload=lent.source["workload"], time_us=lent.source["time_us"])


def _not_tuned(
    engine: Engine,
    workload: Workload,
    filters: BestFilters,
    why: str = "",
    for_device: str | None = None,
) -> Problem:
    """Return the problem of a shape without a best.

    It has the request that orders the tuning for ``for_device`` or the device of the filters. If a
    job was ordered already, it has that job, too."""
    asked = workload.model_dump()
    order = {"operator": workload.operator, "workload": asked, "target": filters.target}
    if filters.match == PREDICTED:
        order |= PREDICTION
    wanted = for_device or filters.device
    if wanted:
        order["for_device"] = device_name(engine, wanted)
    if filters.names is not None:
        order["templates"] = list(filters.names)
    shape = " ".join(f"{name}={in_text(value)}" for name, value in workload.key_fields.items())
    where = "" if filters.target == "auto" else f" for {filters.target}"
    if filters.device is not None:
        where += f" on {filters.device}"
    if filters.threads is not None:
        where += f" with {filters.threads} threads or fewer"
    if filters.names is not None:
        where += f" by {' or '.join(filters.names)}"
    detail = f"{workload.operator} {shape} has not been tuned{where}{why}"
    elsewhere = bests.lookup(engine, workload.key) if where else []
    if elsewhere:
        names = dict.fromkeys(_place(best) for best in elsewhere)
        detail += f" (but it has on {', '.join(names)})"
    tune = {"method": "POST", "url": "/jobs", "body": order}
    job = pending_job_for(engine, workload.key, filters.kind, wanted)
    if job is None:
        way_out = "POST the body in tune to /jobs and ask again once the job has succeeded"
        return Problem("not-tuned", f"{detail}; {way_out}", tune=tune)
    [(_, waiting)] = devices_and_waiting_reasons(engine, [job])
    known = {"id": job.id, "state": job.state, "url": f"/jobs/{job.id}", "waiting": waiting}
    held_up = f"; {waiting}" if waiting is not None else ""
    return Problem(
        "not-tuned",
        f"{detail} yet: the job {job.id} is {job.state}{held_up}; ask again once it has succeeded",
        tune=tune,
        job=known,
    )


def _place(best: Best) -> str:
    threads = f" with {best.threads} threads" if best.threads else ""
    return f"{best.device.name}{threads} by {best.template}"
