"""Ordering a model and running its jobs in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.engine import Engine

import templates
from db import models
from db.contract.model import ModelOrder
from db.models import Model
from tuner.device.device import Device
from tuner.library.signing_key import own_key
from tuner.settings import Settings
from tuner.terminal.bar import JobBar
from tuner.terminal.options import as_options
from tuner.worker.in_process import run_or_watch
from tuner.worker.kept_worker import KeptWorker


def submit_model(engine: Engine, settings: Settings, order: ModelOrder, device: Device) -> Model:
    """Store the order of a model, which is to run on this device, and return the model.

    Only bests of this device answer its layers. Raises BadSigningKey.
    """
    own_key(settings.signing_key)  # first, because without a key no best could be signed
    return models.submit(engine, order, reused_on=device.name)[0]


def run_model(
    kept: KeptWorker,
    device: Device,
    model: Model,
    bar: Callable[[], AbstractContextManager[JobBar | None]],
    say: Callable[[str], object],
) -> None:
    """Run each job of the model to its end, even if other jobs have failed.

    ``bar`` makes a progress bar for each job. ``say`` is called before each job with a line that
    names its shape.
    """
    found = models.layers(kept.engine, model)
    waiting = [(place, layer.job) for place, layer in enumerate(found, 1) if not layer.job.ended]
    if not waiting:
        return
    with kept.acquire(device) as worker:
        for place, job in waiting:
            workload = templates.parse_key(job.workload_key)
            say(f"{place} of {len(found)}: {job.operator} {as_options(workload)}")
            with bar() as shown:
                run_or_watch(kept.engine, worker, job, shown)
