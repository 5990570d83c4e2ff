"""Pages of jobs, a job, bests, devices and ladders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from api.dependencies import EngineDep, ExportSlot
from api.route_helpers.best_query import BestFilters
from api.routes import health
from api.schemas.common import OperatorPageQuery
from api.web import best_page, forms, job_page, ladder_page, trials
from api.web.pages import PageRoute, render, sent_form
from db import queue
from db.contract.order import JobFilter
from db.fleet import workers
from db.fleet.devices import device_name, list_devices
from db.queue.waiting import pending_job_for
from db.read import views
from db.results import best as bests
from db.results import ladders
from db.sql.choices import STATES
from templates import operator as find_operator
from templates import operators

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LISTED = 20
FormDep = Annotated[dict[str, str], Depends(sent_form)]


@router.get("/")
def jobs_page(
    request: Request,
    engine: EngineDep,
    operator: str = "",
    duplicate: str = "",
    cursor: str = "",
) -> Response:
    """Return the page of jobs; for programs, which do not ask for HTML, the index of the routes.

    ``duplicate`` is the id of a job whose order fills the form."""
    if "text/html" not in request.headers.get("accept", ""):
        index = health.index(request)
        return JSONResponse(index.model_dump(), headers={"Vary": "Accept"})
    values = None
    if duplicate:
        job = queue.get(engine, duplicate)
        operator, values = job.operator, forms.form_values(job)
    elif operator and any(name.startswith("workload.") for name in request.query_params):
        values = dict(request.query_params)
    chosen = find_operator(operator) if operator else operators()[0]
    listing = _listing(engine, request.query_params, cursor)
    return render(request, "jobs.html", form=forms.order_form(chosen, values), **listing)


@router.get("/ui/jobs")
def jobs_fragment(request: Request, engine: EngineDep, cursor: str = "") -> Response:
    return render(request, "parts/jobs.html", **_listing(engine, request.query_params, cursor))


@router.post("/ui/jobs")
def order(request: Request, sent: FormDep, engine: EngineDep) -> Response:
    """Order the job of a form and lead to its page; if the form is wrong, show it with errors."""
    operator = find_operator(sent.get("operator", ""))
    read = forms.read_order(operator.name, sent)
    if isinstance(read, list):
        form = forms.order_form(operator, sent, read)
        return render(request, "jobs.html", 422, form=form, **_listing(engine, {}, ""))
    job, created = queue.submit(engine, read.order())
    request.state.log |= {"job_id": job.id, "created": created}
    known = "" if created else "?known=1"
    return RedirectResponse(f"/ui/jobs/{job.id}{known}", 303)


@router.get("/ui/jobs/{job_id}")
def job(
    request: Request, job_id: str, engine: EngineDep, known: bool = False, beside: str = ""
) -> Response:
    """Return the page of a job.

    ``known`` says on the page that an equal order had this job already. ``beside`` is the id of a
    job to compare it with."""
    found = queue.get(engine, job_id)
    context = job_page.job_context(engine, found)
    context |= job_page.comparison(engine, found, beside.strip())
    table = trials.table(engine, job_id, trials.TrialTableQuery.read(request.query_params))
    return render(request, "job.html", known=known, table=table, **context)


@router.get("/ui/jobs/{job_id}/live")
def job_fragment(request: Request, job_id: str, engine: EngineDep) -> Response:
    """Return the part of the page that changes while the job runs."""
    context = job_page.job_context(engine, queue.get(engine, job_id))
    return render(request, "parts/job.html", **context)


@router.get("/ui/jobs/{job_id}/trials")
def job_trials(request: Request, job_id: str, engine: EngineDep) -> Response:
    """Return the table of trials as it is asked for, and put that query into the page's address."""
    query = trials.TrialTableQuery.read(request.query_params)
    job = queue.get(engine, job_id)
    table = trials.table(engine, job_id, query)
    answer = render(request, "parts/trials.html", job=job, table=table)
    if request.headers.get("HX-Trigger") != "trials":  # otherwise the page refreshes itself
        answer.headers["HX-Replace-Url"] = f"/ui/jobs/{job_id}?{query.url_query()}".removesuffix(
            "?"
        )
    return answer


@router.get("/ui/jobs/{job_id}/trials.csv", dependencies=[ExportSlot])
def job_trials_csv(request: Request, job_id: str, engine: EngineDep) -> Response:
    query = trials.TrialTableQuery.read(request.query_params)
    job = queue.get(engine, job_id)
    named = {"Content-Disposition": f'attachment; filename="trials-{job.id[:8]}.csv"'}
    lines = trials.as_csv(engine, job.id, query.filter)
    return StreamingResponse(lines, headers=named, media_type="text/csv")


@router.get("/ui/jobs/{job_id}/curve")
def job_curve(job_id: str, engine: EngineDep) -> Response:
    return JSONResponse(job_page.curve(engine, job_id), headers={"Cache-Control": "no-store"})


@router.post("/ui/jobs/{job_id}/cancel")
def cancel(job_id: str, sent: FormDep, engine: EngineDep) -> Response:
    queue.cancel(engine, job_id)
    return RedirectResponse("/" if sent.get("back") == "jobs" else f"/ui/jobs/{job_id}", 303)


@router.get("/ui/best")
def best_search(request: Request, engine: EngineDep) -> Response:
    """Return the page that lists bests, by operator, parts of the shape and device."""
    asked = {name: text.strip() for name, text in request.query_params.items() if text.strip()}
    chosen = find_operator(asked["operator"]) if "operator" in asked else None
    wanted, wrong = ({}, {}) if chosen is None else forms.read_shape(chosen, asked)
    device = asked.get("device", "")
    device_id = int(device) if device.isdecimal() and len(device) < 19 else None
    page = views.find_bests(
        engine,
        chosen.name if chosen else None,
        wanted,
        device_id,
        LISTED,
        asked.get("cursor"),
        chosen.defaults_of_added_fields if chosen else {},
    )
    more = None
    if page.next_cursor:
        more = {**asked, "cursor": page.next_cursor}
    return render(
        request,
        "bests.html",
        operator=chosen,
        fields=forms.shape_fields(chosen, asked, wrong, blank=True) if chosen else [],
        devices=list_devices(engine),
        asked=asked,
        page=page,
        more=more,
    )


@router.get("/ui/best/{name}")
def best(request: Request, name: str, engine: EngineDep) -> Response:
    """Return the page of a best; if there is none, a 404 page with a form that orders it."""
    operator = find_operator(name)
    workload, filters = BestFilters.read(operator, request.query_params)
    asked = (filters.kind, filters.device, filters.names, filters.threads)
    found = bests.lookup(engine, workload.key, *asked, parallel=filters.parallel)
    if not found:
        values = {f"workload.{key}": value for key, value in request.query_params.items()}
        device = device_name(engine, filters.device) if filters.device else None
        values |= {"target": filters.target, "for_device": device or ""}
        return render(
            request,
            "untuned.html",
            404,
            operator=operator,
            workload=workload.model_dump(),
            form=forms.order_form(operator, values),
            job=pending_job_for(engine, workload.key, filters.kind, filters.device),
            prediction=forms.prediction_fields(workload, filters.target, device, filters.names),
        )
    narrowed = {
        name: value
        for name, value in (
            ("templates", filters.names and list(filters.names)),
            ("threads", filters.threads),
            ("parallel", filters.parallel or None),
        )
        if value is not None
    }
    context = best_page.best_context(engine, request, workload, found, narrowed)
    return render(request, "best.html", workload=workload.model_dump(), **context)


@router.get("/ui/devices")
def devices_page(request: Request, engine: EngineDep) -> Response:
    return render(request, "devices.html", **_devices(engine))


@router.get("/ui/devices/live")
def devices_fragment(request: Request, engine: EngineDep) -> Response:
    return render(request, "parts/devices.html", **_devices(engine))


@router.get("/ui/ladder")
def ladder(
    request: Request, engine: EngineDep, query: Annotated[OperatorPageQuery, Query()]
) -> Response:
    chosen = find_operator(query.operator) if query.operator else operators()[0]
    page = ladders.list_ladders(engine, chosen.name, None, 10, query.cursor)
    shown = [ladder_page.ladder_context(each) for each in page.items]
    return render(
        request, "ladder.html", operator=chosen, ladders=shown, next_cursor=page.next_cursor
    )


def _listing(engine: Any, query: Mapping[str, str], cursor: str) -> dict[str, Any]:
    """Return the contents of the list of jobs."""
    wanted = replace(JobFilter.of(query), operator=None)  # the query's operator is the form's
    page = queue.list_jobs(engine, wanted, LISTED, cursor or None)
    devices = {device.id: device for device in list_devices(engine)}
    asked = {name: text or "" for name, text in vars(wanted).items()}
    peers = views.fastest_peers(engine, [job.id for job in page.items])
    return {
        "page": page,
        "peers": peers,
        "devices": devices,
        "states": STATES,
        "asked": asked,
        "cursor": cursor,
    }


def _devices(engine: Any) -> dict[str, Any]:
    return {
        "devices": list_devices(engine),
        "workers": workers.list_workers(engine),
        "counts": views.count_bests(engine),
    }
