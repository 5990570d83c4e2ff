"""The content of a model's page."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import Engine

from db import models
from db.contract.order import Terms
from db.models import Model
from db.queue.takers import beside

ELSEWHERE = ("target", "trials", "search")
"""Of the terms those that the page shows whatever they are."""


def model_context(engine: Engine, model: Model) -> dict[str, Any]:
    layers = models.layers(engine, model)
    queued = [layer.job for layer in layers if layer.job.state == "queued"][:1]
    waiting = next((reason for _, reason in beside(engine, queued)), None)
    return {
        "model": model,
        "layers": layers,
        "time": models.time_of(layers),
        "ordered": _ordered(model),
        "waiting": None if model.ended or model.state == "running" else waiting,
    }


def done(model: Model) -> int:
    """Trials of which nothing is left to do: a job may end with fewer than were ordered."""
    parts = model.parts
    return sum(p.trials_requested if p.ended else p.trials_measured for p in parts)


def _ordered(model: Model) -> dict[str, Any]:
    """The terms that are not at their default."""
    return {
        each.name: model.terms[each.name]
        for each in fields(Terms)
        if each.name not in ELSEWHERE and model.terms.get(each.name, each.default) != each.default
    }
