"""The layers of a model: their jobs, and the stored bests that answer them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.engine import RowMapping

from db.contract.job import DeviceView, Job
from db.contract.model import LayerBest, LayerPeer, ModelTime
from db.models.state import Model
from db.queue.jobs import job_columns
from db.results.fastest import fastest_pytorch
from db.sql.tables import bests, devices, jobs, model_layers
from db.sql.transaction import reading


@dataclass(frozen=True)
class Layer:
    """A workload of a model, with the number of its calls, its job, and its best if it has one."""

    calls: int
    job: Job
    best: LayerBest | None

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of LayerShown."""
        job = self.job
        return {
            "operator": job.operator,
            "workload": job.workload,
            "calls": self.calls,
            "job": job.id,
            "state": job.state,
            "best": self.best,
        }


def layers(engine: Engine, model: Model) -> list[Layer]:
    """Return a model's layers in the order in which they were ordered."""
    here = model_layers.c.model_seq == model.seq
    ordered = (
        job_columns()
        .add_columns(model_layers.c.calls)
        .join(model_layers, model_layers.c.job_seq == jobs.c.seq)
        .where(here)
        .order_by(model_layers.c.place)
    )
    found = (
        select(
            bests, *(devices.c[name].label(f"device_{name}") for name in ("kind", "name", "arch"))
        )
        .join(devices, devices.c.id == bests.c.device_id)
        .where(
            bests.c.workload_id.in_(
                select(jobs.c.workload_id)
                .join(model_layers, model_layers.c.job_seq == jobs.c.seq)
                .where(here)
            )
        )
        .order_by(bests.c.time_us, bests.c.id)
    )
    with reading(engine) as connection:
        rows = connection.execute(ordered).mappings().all()
        stored: dict[int, list[RowMapping]] = {}
        for row in connection.execute(found).mappings():
            stored.setdefault(row["workload_id"], []).append(row)
    return [
        Layer(row["calls"], job, _best_for(model, job, stored.get(row["workload_id"], [])))
        for row in rows
        for job in [Job.from_row(row)]
    ]


def to_fields(model: Model, found: Sequence[Layer]) -> dict[str, Any]:
    """Return the fields of ModelShown. ``found`` are the model's layers."""
    return model.to_fields() | {
        "time": time_of(found),
        "layers": [layer.to_fields() for layer in found],
    }


def time_of(found: Iterable[Layer]) -> ModelTime:
    """Return a model's time and PyTorch's, in µs, summed over the layers that have both.

    A model may have a convolution twice: with the gates around it, and without them for calls that
    are not compiled. The layer without gates is not counted if the layer with gates has a best.

    On a CPU both times are of calls from Python. Our time is PyTorch's divided by ``speedup``, so
    that like is compared with like. It may differ from the best's ``time_us``."""
    pairs = [
        (layer.calls * peer.time_us / peer.speedup, layer.calls * peer.time_us)
        for layer in _called(found)
        if layer.best is not None
        for peer in [layer.best.peer]
        if peer is not None
    ]
    if not pairs:
        return ModelTime(layers=0)
    tuned, baseline = (sum(times) for times in zip(*pairs, strict=True))
    return ModelTime(tuned_us=tuned, baseline_us=baseline, gain=baseline / tuned, layers=len(pairs))


def _called(found: Iterable[Layer]) -> list[Layer]:
    """Return the layers, except those that a layer with gates replaces."""
    several = list(found)

    def ungated(layer: Layer) -> dict[str, Any]:
        return {name: value for name, value in layer.job.workload.items() if name != "gated"}

    replaced = [
        ungated(layer)
        for layer in several
        if layer.best is not None and layer.job.workload.get("gated")
    ]
    return [
        layer
        for layer in several
        if layer.job.workload.get("gated") or ungated(layer) not in replaced
    ]


def _best_for(model: Model, job: Job, stored: Sequence[RowMapping]) -> LayerBest | None:
    """Return the first of these bests, sorted fastest first, that answers the layer's order.

    The best must be of the job's device or, as long as the job has no device, of a device of the
    ordered kind and name. If the order is restricted to templates, the best must use one of them.
    If not, it must come from an order that was not restricted."""
    target, names = model.terms["target"], model.terms["templates"]
    for_device = model.terms.get("for_device")  # models of earlier releases lack it
    for row in stored:
        on_device = (
            row["device_id"] == job.device_id
            if job.device_id is not None
            else target in ("auto", row["device_kind"]) and for_device in (None, row["device_name"])
        )
        by_template = row["templates"] == "" if names is None else row["template"] in names
        if on_device and by_template:
            return _layer_best(job.workload, row)
    return None


def _layer_best(workload: Mapping[str, Any], row: RowMapping) -> LayerBest:
    peer = fastest_pytorch(workload, row["timing"], row["time_us"], row["baselines"])
    return LayerBest(
        template=row["template"],
        config=row["config"],
        time_us=row["time_us"],
        device=DeviceView(
            kind=row["device_kind"], name=row["device_name"], arch=row["device_arch"]
        ),
        peer=LayerPeer(**peer) if peer else None,
    )
