"""Lookups: a source has a library for a layer's shape, or a reason why PyTorch computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import ValidationError

import templates
from templates.errors import first_refused
from templates.workload import Workload
from tuner.client.answers import Best
from tuner.client.pytorch_comparison import reason_to_use_pytorch
from tuner.client.source import SOURCE_ERRORS, UNREACHABLE_ERRORS, Source
from tuner.device import cpu_facts
from tuner.errors import ForeignDevice, NotTuned
from tuner.library.load import Library

KINDS = ("cpu", "cuda")
"""The kinds of devices that kernels are for."""


@dataclass(frozen=True)
class Found:
    """A source's answer: a ``library``, or the ``reason`` why PyTorch computes the shape.

    ``best`` is the best that the source named, if it did; it may be slower than PyTorch, and then
    there is no library. ``is_away`` says that the source answers nothing at all.
    """

    library: Library | None = None
    reason: str = ""
    best: Best | None = None
    is_away: bool = False


def workload_of(operator: str, fields: Mapping[str, Any]) -> Workload | str:
    """Return the workload with these fields, or the reason why they break the operator's limits."""
    try:
        return templates.operator(operator).workload.model_validate(dict(fields))
    except ValidationError as error:
        return f"the operator has limits: {' '.join(first_refused(error))}"


def look_up(
    source: Source, operator: str, wanted: Iterable[Mapping[str, Any]], device: torch.device
) -> Found:
    """Return what the source has for the first of the ``wanted`` that is tuned for the device.

    ``wanted`` are the fields of at least one workload, the preferred one first. If none is tuned,
    the reason is the first one's. A workload that breaks a limit or has another error ends the
    search.
    """
    if device.type not in KINDS:
        return Found(reason=f"it is called on {device}, and kernels are for {' and '.join(KINDS)}")
    reasons = []
    for fields in wanted:
        workload = workload_of(operator, fields)
        if isinstance(workload, str):
            return Found(reason=workload)
        try:
            return _of(source, workload, device)
        except NotTuned as missing:
            reasons.append(str(missing))
        except SOURCE_ERRORS as error:
            return Found(reason=str(error), is_away=isinstance(error, UNREACHABLE_ERRORS))
    return Found(reason=reasons[0])


def best_of(source: Source, wanted: Workload, device: torch.device) -> Best:
    """Return the best of ``device`` itself or, if a CPU has none, the best of another CPU.

    This CPU may have the other CPU's instructions; loading the library checks that. Raises
    NotTuned.
    """
    gpu, shape, asked = gpu_name(device), wanted.model_dump(), filters(device)
    best = source.best(wanted.operator, shape, device=gpu, **asked)
    own = cpu_facts.name()
    if gpu is not None or best.device.name == own:
        return best
    try:
        return source.best(wanted.operator, shape, device=own, **asked)
    except NotTuned:
        return best


def gpu_name(device: torch.device) -> str | None:
    """Return the name of a GPU; None for a CPU, which may use the bests of other CPUs."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


def filters(device: torch.device) -> dict[str, Any]:
    """Return what a source is asked beside a workload: the kind of device, and how many threads.

    On a CPU the best on several threads is preferred if PyTorch has several, because the operators
    before and after the layer run on all of them.
    """
    several = device.type == "cpu" and torch.get_num_threads() > 1
    return {"target": device.type, "parallel": several}


def _of(source: Source, wanted: Workload, device: torch.device) -> Found:
    best = best_of(source, wanted, device)
    reason = reason_to_use_pytorch(best)
    if reason is not None:
        return Found(reason=reason, best=best)
    library: Library = source.load(best)
    if library.workload != wanted:
        raise ForeignDevice(f"the source answered with a library of {library.workload.key}")
    return Found(library=library, best=best)
