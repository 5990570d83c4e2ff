"""Reports of models and their layers as lines for people."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

import templates
from db.contract.model import LayerShown, ModelListed, ModelShown
from db.read.in_words import gain_in_words
from templates.errors import TemplateError
from tuner.cli.common import show
from tuner.terminal.options import as_options


def show_models(models: Iterable[ModelListed]) -> None:
    """Print one line for each model, in columns that programs such as ``cut`` can take apart."""
    for model in models:
        jobs, trials = model.progress.jobs, model.progress.trials
        show(
            f"{model.id}  {model.state:9}  {jobs.ended:>3}/{jobs.all:<3}"
            f"  {trials.measured:>6}/{trials.requested:<6}  {model.name}"
        )


def show_model(model: ModelShown) -> None:
    """Print a model, with one line for each fact and one for each layer."""
    jobs, trials = model.progress.jobs, model.progress.trials
    lines = {
        "model": model.id,
        "name": model.name,
        "state": model.state,
        "target": model.target,
        "device": model.for_device,
        "jobs": f"{jobs.ended} of {jobs.all} ended",
        "trials": f"{trials.measured} of {trials.requested}",
        "to go": model.eta_seconds is not None and f"{model.eta_seconds:.0f} s",
        "gain": gain_in_words(model.time, len(model.layers)),
        "ordered": model.created_at.isoformat(),
        "ended": model.finished_at and model.finished_at.isoformat(),
    }
    for name, value in lines.items():
        if value:
            show(f"{name:9} {value}")
    for layer in model.layers:
        show(
            f"{layer.job}  {layer.state:9}  {layer.calls:>4} ×  {_best(layer):>24}"
            f"  {_peer(layer):>28}  {layer.operator} {_shape(layer)}"
        )


def _best(layer: LayerShown) -> str:
    return f"{layer.best.template} {layer.best.time_us:.2f} µs" if layer.best else ""


def _peer(layer: LayerShown) -> str:
    peer = layer.best.peer if layer.best else None
    return f"{peer.name} {peer.time_us:.2f} µs" if peer else ""


def _shape(layer: LayerShown) -> str:
    try:
        workload = templates.operator(layer.operator).workload
        return as_options(workload.model_validate(layer.workload))
    except (TemplateError, ValidationError):  # the service is of another release
        return " ".join(f"{name}={value}" for name, value in layer.workload.items())
