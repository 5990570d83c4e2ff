"""What is done about workloads of a model that are not tuned."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch

from templates.workload import Workload
from tuner.client.client import Client
from tuner.client.source import Source
from tuner.errors import NotTuned, ServiceUnreachable, TunerError, WrongArgument
from tuner.torch.lookup import best_of

OnMissing = Literal["fallback", "nearest", "tune", "raise"]
Wanted = tuple[Workload, torch.device]


def untuned(source: Source, wanted: Iterable[Wanted]) -> dict[Wanted, str]:
    """Those that nothing is tuned for, and what the source said. Raises ServiceUnreachable."""
    missing = {}
    for workload, device in wanted:
        try:
            best_of(source, workload, device)
        except NotTuned as error:
            missing[workload, device] = str(error)
        except ServiceUnreachable:
            raise
        except TunerError:
            continue  # that it can't be asked for is said where it is looked up
    return missing


def refuse(missing: dict[Wanted, str]) -> None:
    """Raises NotTuned if there are any."""
    if missing:
        raise NotTuned(
            None,
            f"{len(missing)} workloads of the model are not tuned, and on_missing is 'raise':\n"
            + "\n".join(missing.values()),
        )


def tune(source: Source, missing: Sequence[Wanted], budget_seconds: float | None) -> dict[str, str]:
    """Have each tuned, by the service or here, in at most so many seconds together. What went
    wrong, by the workload's key; what was found before stays."""
    failed: dict[str, str] = {}
    end = None if budget_seconds is None else time.monotonic() + budget_seconds
    for done, (workload, device) in enumerate(missing):
        share = None if end is None else (end - time.monotonic()) / (len(missing) - done)
        if share is not None and share < 1:
            failed[workload.key] = f"budget_seconds {budget_seconds:g} were over before its turn"
            continue
        shape = workload.model_dump()
        # other libraries are no choice of a layer's, and to time them takes longer than the search
        terms = {"target": device.type, "budget_seconds": share, "baselines": "pytorch"}
        try:
            if isinstance(source, Client):
                source.wait(source.submit(workload.operator, shape, **terms))
            else:
                local: Any = source
                local.tune(workload.operator, shape, **terms)
        except TunerError as error:
            failed[workload.key] = f"it could not be tuned: {error}"
    return failed


def verify_nearest(source: Source, missing: Sequence[Wanted]) -> dict[str, str]:
    """Have the configuration of each one's closest tuned shape verified for it by a worker. Raises
    WrongArgument if the source is no service. What went wrong, by the workload's key."""
    if not isinstance(source, Client):
        raise WrongArgument(
            "on_missing is 'nearest', which a service answers: give a Client as source, or have "
            "it 'tune'"
        )
    failed: dict[str, str] = {}
    for workload, device in missing:
        try:
            shape = workload.model_dump()
            source.wait(source.verify_nearest(workload.operator, shape, target=device.type))
        except TunerError as error:
            failed[workload.key] = f"nothing near was verified: {error}"
    return failed
