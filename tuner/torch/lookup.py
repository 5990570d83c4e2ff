"""What a source has for a layer's shape: a library to call, or why PyTorch computes it."""

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


@dataclass(frozen=True)
class Found:
    """``library`` computes the shape, or PyTorch does for that ``reason``. ``best`` is what the
    source answered, if it did; ``is_away`` says that it gives no answers."""

    library: Library | None = None
    reason: str = ""
    best: Best | None = None
    is_away: bool = False


def workload_of(operator: str, fields: Mapping[str, Any]) -> Workload | str:
    """The workload of those fields, or the limit that it would break."""
    try:
        return templates.operator(operator).workload.model_validate(dict(fields))
    except ValidationError as error:
        return f"the operator has limits: {' '.join(first_refused(error))}"


def look_up(
    source: Source, operator: str, wanted: Iterable[Mapping[str, Any]], device: torch.device
) -> Found:
    """The first of those workloads, given by their fields, that is tuned for the device."""
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
    """That of the very device, or of another CPU, whose instructions may be here too; on several
    threads if PyTorch has several, as what comes before and after is on all of them. Raises
    NotTuned."""
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else cpu_facts.name()
    asked: Any = {"target": device.type, "parallel": not on_gpu and torch.get_num_threads() > 1}
    shape = wanted.model_dump()
    try:
        return source.best(wanted.operator, shape, device=name, **asked)
    except NotTuned:
        if on_gpu:
            raise
        return source.best(wanted.operator, shape, **asked)


def _of(source: Source, wanted: Workload, device: torch.device) -> Found:
    best = best_of(source, wanted, device)
    reason = reason_to_use_pytorch(best)
    if reason is not None:
        return Found(reason=reason, best=best)
    library: Library = source.load(best)
    if library.workload != wanted:
        raise ForeignDevice(f"the source answered with a library of {library.workload.key}")
    return Found(library=library, best=best)
