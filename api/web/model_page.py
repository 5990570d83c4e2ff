"""Contents of the page of a model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import Engine

from api.web.job_page import TERMS_SHOWN_ALWAYS
from db import models
from db.contract.order import Terms
from db.models import Model
from db.queue.waiting import devices_and_waiting_reasons


def model_context(engine: Engine, model: Model) -> dict[str, Any]:
    """Return what the page shows of a model."""
    layers = models.layers(engine, model)
    queued = [layer.job for layer in layers if layer.job.state == "queued"][:1]
    waiting = next((reason for _, reason in devices_and_waiting_reasons(engine, queued)), None)
    return {
        "model": model,
        "layers": layers,
        "time": models.time_of(layers),
        "ordered": _ordered(model),
        "waiting": None if model.ended or model.state == "running" else waiting,
    }


def done(model: Model) -> int:
    """Return how many of the ordered trials need no more work.

    A job that ended counts in full, since it may end with fewer trials than were ordered."""
    return sum(job.trials_requested if job.ended else job.trials_measured for job in model.jobs)


def _ordered(model: Model) -> dict[str, Any]:
    """Return the terms that are not at their default, except TERMS_SHOWN_ALWAYS."""
    return {
        each.name: model.terms[each.name]
        for each in fields(Terms)
        if each.name not in TERMS_SHOWN_ALWAYS
        and model.terms.get(each.name, each.default) != each.default
    }
