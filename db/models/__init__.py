"""Models: orders of many workloads. Each layer refers to the job that tunes it. Other models and
orders may share that job."""

from db.models.cancel import cancel
from db.models.layers import Layer, layers, shown, time_of
from db.models.read import get, list_models, resolve_id
from db.models.standing import Model
from db.models.submit import submit

__all__ = [
    "Layer",
    "Model",
    "cancel",
    "get",
    "layers",
    "list_models",
    "resolve_id",
    "shown",
    "submit",
    "time_of",
]
