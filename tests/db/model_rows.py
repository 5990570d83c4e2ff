"""Helpers that store models and tune their jobs."""

from typing import Any

from sqlalchemy import Engine
from storage_rows import claimed, device, new_best, new_trial, order

from db import models, queue
from db.contract.model import LayerOrder, ModelOrder
from db.results import best, trials


def model_order(*lengths: int, calls: int = 1, name: str = "net", **terms: Any) -> ModelOrder:
    """Return an order of a model with a layer for each length."""
    layers = [LayerOrder(order(length, **terms), calls) for length in lengths]
    return ModelOrder.of(name, layers)


def ordered(engine: Engine, *lengths: int, **more: Any) -> models.Model:
    """Order a new model with a layer for each length, and return it."""
    model, created = models.submit(engine, model_order(*lengths, **more))
    assert created
    return model


def jobs_of(engine: Engine, model: models.Model) -> list[queue.Job]:
    """Return the jobs of the model's layers, in their order."""
    return [layer.job for layer in models.layers(engine, models.get(engine, model.id))]


def tuned_next(engine: Engine, **changes: Any) -> queue.Job:
    """Claim the next job and end it with all its trials and a best; return the ended job."""
    gpu = device(engine).id
    job = claimed(engine)
    knobs = range(job.trials)
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob) for knob in knobs])
    figures: dict[str, Any] = {"measured": job.trials, "ok": job.trials, "failed": 0}
    queue.progress(
        engine, job.id, job.attempt, **figures, best=None, eta_seconds=0.0, device_id=gpu
    )
    made = new_best(job, gpu, **changes)
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(made)])
    return queue.get(engine, job.id)
