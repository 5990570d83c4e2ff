"""Rendering of pages: Jinja's environment, the headers of every page, problems for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from api.access import origin
from api.problems.problems import Problem
from api.schemas.common import in_query
from api.version import VERSION
from api.web import assets
from db.read.in_words import number, roofline_in_brief
from templates import operators
from templates.spaces.knob import brief
from templates.workload import in_text

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Vary": "Accept",
}
MAX_FIELDS = 100


def duration(seconds: float | None) -> str:
    """Return a time in seconds, minutes or hours, whichever suits it."""
    if seconds is None:
        return "–"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def shape(workload: dict[str, Any], operator: str) -> str:
    """Return a workload in short: its extents, then its other fields in words.

    ``max_error`` is left out. So is each field of a later release that has its default."""
    known = {each.name: each.defaults_of_added_fields for each in operators()}
    defaults = known.get(operator, {})
    extents, words = [], []
    for name, value in workload.items():
        if name in defaults and value == defaults[name]:
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, str):
            words.append(value)
        elif not isinstance(value, str | bool) and name != "max_error":
            extents.append(f"{name}={in_text(value)}")
    return " ".join([*extents, *words])


def config_text(config: dict[str, Any] | None) -> str:
    """Return a configuration in one line, with long values cut off."""
    return "  ".join(f"{name}={brief(value)}" for name, value in (config or {}).items())


def elapsed(since: datetime | None, until: datetime | None = None) -> str:
    """Return the time from ``since`` to ``until``, or to the present, in words."""
    if since is None:
        return "–"
    seconds = ((until or datetime.now(UTC)) - since).total_seconds()
    return duration(max(0.0, seconds))  # this host's clock may be behind the database's


def sentence(words: str) -> str:
    """Return the words with a capital letter and a full stop."""
    return f"{words[0].upper()}{words[1:]}."


def best_url(
    operator: str,
    workload: dict[str, Any],
    device: object = None,
    templates: Sequence[str] | None = None,
    threads: int | None = None,
) -> str:
    """Return the URL of the page of a best. ``device`` is a device's id or name; None: any."""
    query = dict(workload) if device is None else {**workload, "device": device}
    if threads is not None:
        query |= {"parallel": "true"} if threads > 1 else {}
        query["threads"] = threads
    if templates is not None:
        query["templates"] = ",".join(templates)
    return f"/ui/best/{operator}?{in_query(query)}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "html"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "duration": duration,
        "shape": shape,
        "sentence": sentence,
        "config": config_text,
    }
    environment.globals |= {
        "asset": assets.url,
        "best_url": best_url,
        "elapsed": elapsed,
        "roofline_in_brief": roofline_in_brief,
        "operators": operators,
        "version": VERSION,
    }
    return environment


ENVIRONMENT = _environment()


def render(request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page: the file ``name`` of ``html``, filled in, with the headers of every page."""
    caller = getattr(request.state, "caller", None)  # None if the request needed no key
    html = ENVIRONMENT.get_template(name).render(path=request.url.path, caller=caller, **context)
    return HTMLResponse(html, status, PAGE_HEADERS)


class PageRoute(APIRoute):
    """A route whose errors are answered with pages."""


def problem_page(
    request: Request, problem: Problem, name: str = "error.html", **context: Any
) -> HTMLResponse:
    """Return a problem as a page: the file ``name`` of ``html``, filled in."""
    page = render(request, name, problem.status, problem=problem, **context)
    page.headers.update(problem.headers or {})
    return page


async def sent_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of this service sent.

    Raise Problem if the form can't be read, or if the browser does not say that it comes from a
    page of this service."""
    if not origin.is_same_origin(request):
        raise Problem(
            "bad-request",
            "the form was not sent from a page of this service; open the page and send it there "
            "(programs use the HTTP API, see /docs)",
        )
    try:
        text = (await request.body()).decode()
        sent = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:  # UnicodeDecodeError is one
        raise Problem("bad-request", "the form can't be read; send it from its page") from error
    fields = dict(sent)
    if len(fields) < len(sent):
        raise Problem("bad-request", "the form has a field twice; send it from its page")
    return fields
