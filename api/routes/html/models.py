"""Pages of models: a list of them, and a model with its layers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from api.dependencies import EngineDep
from api.web.model_page import done, model_context
from api.web.pages import PageRoute, render, sent_form
from db import models

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LISTED = 20


@router.get("/ui/models")
def models_page(request: Request, engine: EngineDep, cursor: str = "") -> Response:
    page = models.list_models(engine, LISTED, cursor or None)
    return render(request, "models.html", page=page, cursor=cursor, done=done)


@router.get("/ui/models/{model_id}")
def model_page(request: Request, model_id: str, engine: EngineDep) -> Response:
    context = model_context(engine, models.get(engine, model_id))
    return render(request, "model.html", done=done, **context)


@router.get("/ui/models/{model_id}/live")
def model_fragment(request: Request, model_id: str, engine: EngineDep) -> Response:
    """Return the part of the page that changes while the model runs."""
    context = model_context(engine, models.get(engine, model_id))
    return render(request, "parts/model.html", done=done, **context)


@router.post("/ui/models/{model_id}/cancel")
def cancel(
    model_id: str, sent: Annotated[dict[str, str], Depends(sent_form)], engine: EngineDep
) -> Response:
    models.cancel(engine, model_id)
    return RedirectResponse(f"/ui/models/{model_id}", 303)
