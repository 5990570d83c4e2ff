"""The JSON of a model, with and without its layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

from pydantic import ConfigDict

from api.schemas.common import CONFIG, DEVICE, JOB_ID, WORKLOAD
from api.schemas.jobs import link_to_best
from db.contract.model import LayerLinks, LinkedLayer, ModelLinks, ModelListed, ModelShown
from db.contract.order import Terms
from db.models import Layer, Model, to_fields

_ID = "0d4b6a1c9e8f4a7db2c3d4e5f6a7b8c9"
_LISTED: dict[str, Any] = {
    "id": _ID,
    "name": "two_layers",
    "state": "running",
    **asdict(Terms()),
    "progress": {
        "trials": {"requested": 128, "measured": 90},
        "jobs": {"ended": 1, "all": 2},
    },
    "eta_seconds": 21.5,
    "created_at": "2025-11-20T17:00:00Z",
    "finished_at": None,
    "links": {"self": f"/models/{_ID}", "cancel": f"/models/{_ID}/cancel"},
}
_LAYER: dict[str, Any] = {
    "operator": "conv1d",
    "workload": WORKLOAD,
    "calls": 3,
    "job": JOB_ID,
    "state": "succeeded",
    "best": {
        "template": "direct",
        "config": CONFIG,
        "time_us": 1.71,
        "device": DEVICE,
        "peer": {"name": "pytorch", "time_us": 9.8, "speedup": 5.73},
    },
    "links": {"job": f"/jobs/{JOB_ID}", "best": "/best/conv1d?M=16384&N=32"},
}
_EXAMPLE: dict[str, Any] = {
    **_LISTED,
    "time": {"tuned_us": 5.13, "baseline_us": 29.4, "gain": 5.73, "layers": 1},
    "layers": [_LAYER],
}


class ModelItem(ModelListed):
    """A model in a list, without its layers."""

    model_config = ConfigDict(json_schema_extra={"examples": [_LISTED]})

    links: ModelLinks

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(**model.to_fields(), links=_links(model))


class ModelView(ModelShown):
    """A user's order of many workloads, and how far it is.

    Its state, progress and time estimate follow from its jobs, which other orders may share."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    layers: list[LinkedLayer]
    links: ModelLinks

    @classmethod
    def of(cls, model: Model, layers: Sequence[Layer]) -> Self:
        linked = {"layers": [_linked(model, layer) for layer in layers], "links": _links(model)}
        return cls(**to_fields(model, layers) | linked)


def _links(model: Model) -> ModelLinks:
    return ModelLinks(self=f"/models/{model.id}", cancel=f"/models/{model.id}/cancel")


def _linked(model: Model, layer: Layer) -> LinkedLayer:
    job = layer.job
    best = link_to_best(job.operator, job.workload, model.terms)
    return LinkedLayer(**layer.to_fields(), links=LayerLinks(job=f"/jobs/{job.id}", best=best))
