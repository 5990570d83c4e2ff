"""Workloads of a model that are not tuned: find, refuse, predict, tune or verify them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch

from db.contract.model import MAX_WORKLOADS
from db.contract.order import PREDICTED
from templates.workload import Workload
from tuner.client.client import Client
from tuner.client.source import SOURCE_ERRORS, UNREACHABLE_ERRORS, Source
from tuner.errors import ModelFailed, NotTuned, WrongArgument
from tuner.job.order import workload_of
from tuner.torch.lookup.source_lookup import best_of, filters, gpu_name

OnMissing = Literal["fallback", "nearest", "predicted", "tune", "raise"]
Wanted = tuple[Workload, torch.device]


def untuned(source: Source, wanted: Iterable[Wanted], *, to_tune: bool) -> dict[Wanted, str]:
    """Return the workloads that are not tuned, with what the source says about each.

    A best that is only predicted counts as tuned, unless the workloads are ``to_tune``. Raises what
    the source raises if it can't be reached.
    """
    missing = {}
    for workload, device in wanted:
        try:
            best = best_of(source, workload, device)
            if to_tune and best.match == PREDICTED:
                missing[workload, device] = "it is only predicted"
        except NotTuned as error:
            missing[workload, device] = str(error)
        except UNREACHABLE_ERRORS:
            raise
        except SOURCE_ERRORS:
            continue  # when the layer looks the workload up, it gets the same refusal as its reason
    return missing


def predict(source: Source, missing: Sequence[Wanted]) -> dict[str, str]:
    """Have a predicted configuration verified for each workload, by a worker or in this process.

    Return what went wrong, by the workload's key.
    """
    failed: dict[str, str] = {}
    for workload, device in missing:
        try:
            shape = workload.model_dump()
            asked = {"match": PREDICTED, "device": gpu_name(device), **filters(device)}
            source.best(workload.operator, shape, **asked)
        except SOURCE_ERRORS as error:
            failed[workload.key] = f"it could not be predicted: {error}"
    return failed


def refuse(missing: dict[Wanted, str]) -> None:
    """Raise NotTuned if any workloads are missing."""
    if missing:
        raise NotTuned(
            None,
            f"{len(missing)} workloads of the model are not tuned, and on_missing is 'raise':\n"
            + "\n".join(missing.values()),
        )


def tune(
    source: Source, name: str, missing: Mapping[Wanted, int], budget_seconds: float | None
) -> dict[str, str]:
    """Have the workloads tuned, by the service or in this process.

    ``name`` is the order's. There are several orders if one order can't take all workloads, or if
    there are several devices. An order for a GPU names that GPU, because another GPU's kernels
    would not be used here. ``missing`` says how often the model calls each workload.
    ``budget_seconds`` is shared out equally. Return what went wrong, by the workload's key; the
    bests of other workloads stay.
    """
    failed: dict[str, str] = {}
    share = None if budget_seconds is None else budget_seconds / max(1, len(missing))
    for (kind, gpu), ordered in _orders(missing):
        workloads = [
            {"operator": each.operator, "workload": each.model_dump(), "calls": calls}
            for each, calls in ordered
        ]
        # PyTorch is a layer's only alternative, and timing other peers outlasts the search
        terms: dict[str, Any] = {"target": kind, "for_device": gpu}
        terms |= {"budget_seconds": share, "baselines": "pytorch"}
        try:
            if isinstance(source, Client):
                source.wait_model(source.submit_model(name, workloads, **terms))
            else:
                local: Any = source
                local.tune_model(name, workloads, **terms)
        except ModelFailed as error:
            failed |= {
                workload_of(each.operator, each.workload).key: f"job {each.job} {each.state}"
                for each in error.model.layers
                if each.state != "succeeded"
            }
        except SOURCE_ERRORS as error:
            reason = f"it could not be tuned: {error}"
            failed |= {each.key: reason for each, _ in ordered}
    return failed


def _orders(
    missing: Mapping[Wanted, int],
) -> Iterator[tuple[tuple[str, str | None], list[tuple[Workload, int]]]]:
    """Yield each device's workloads with their calls, in parts that one order can take. A device is
    its kind and, if it is a GPU, its name."""
    by_device: dict[tuple[str, str | None], list[tuple[Workload, int]]] = {}
    for (workload, device), calls in missing.items():
        place = (device.type, gpu_name(device))
        by_device.setdefault(place, []).append((workload, calls))
    for place, wanted in by_device.items():
        for start in range(0, len(wanted), MAX_WORKLOADS):
            yield place, wanted[start : start + MAX_WORKLOADS]


def verify_nearest(source: Source, missing: Sequence[Wanted]) -> dict[str, str]:
    """Have a worker verify, for each workload, the configuration of its closest tuned shape.

    Return what went wrong, by the workload's key. Raises WrongArgument if the source is no service.
    """
    if not isinstance(source, Client):
        raise WrongArgument(
            "on_missing is 'nearest', which needs a service: give a Client as source, or use 'tune'"
        )
    failed: dict[str, str] = {}
    for workload, device in missing:
        try:
            shape = workload.model_dump()
            asked = {"for_device": gpu_name(device), **filters(device)}
            source.wait(source.verify_nearest(workload.operator, shape, **asked))
        except SOURCE_ERRORS as error:
            failed[workload.key] = f"no configuration of a near shape could be verified: {error}"
    return failed
