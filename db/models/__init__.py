"""Models: orders of many workloads. Each layer refers to the job that tunes it. Other models and
orders may share that job."""

from db.models.cancel import cancel
from db.models.layers import Layer, layers, time_of, to_fields
from db.models.read import get, list_models, resolve_id
from db.models.state import Model
from db.models.submit import submit

__all__ = [
    "Layer",
    "Model",
    "cancel",
    "get",
    "layers",
    "list_models",
    "resolve_id",
    "submit",
    "time_of",
    "to_fields",
]
