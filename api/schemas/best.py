"""The JSON of a best, as the service shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.common import CONFIG, DEVICE, JOB_ID, SHA256, WORKLOAD
from db.contract.best import BestShown, Neighbour
from db.results.best import Best
from db.results.best_fields import best_fields, borrowed_fields
from templates import arithmetic_of
from templates.arithmetic import DIRECT, Arithmetic

_ARTIFACT = {"url": f"/artifacts/{SHA256}", "sha256": SHA256, "size": 48_112}
_EXAMPLE: dict[str, Any] = {
    "match": "exact",
    "verified": True,
    "verify": None,
    "operator": "conv1d",
    "workload": WORKLOAD,
    "device": DEVICE,
    "devices": [{**DEVICE, "time_us": 1.71}],
    "neighbour": None,
    "config": CONFIG,
    "template": "direct",
    "arithmetic": asdict(DIRECT),
    "time_us": 1.71,
    "timing": {"warm": {"median": 1.71}, "cold": {"median": 4.9}},
    "gflops": 614.3,
    "roofline": {"bound": "compute", "floor_us": 0.02, "fraction": 0.01},
    "max_error": 2.4e-7,
    "baselines": [{"name": "pytorch", "time_us": 9.8, "speedup": 5.7, "level": "kernel"}],
    "fastest": {"name": "convtune", "time_us": 1.71},
    "threads": None,
    "trials": 200,
    "job": JOB_ID,
    "tuned_at": "2025-11-20T17:01:00Z",
    "versions": {"convtune": "0.1.0", "tvm": "0.27.0"},
    "artifacts": {
        "library": _ARTIFACT,
        "source": _ARTIFACT,
        "manifest": _ARTIFACT,
        "record": _ARTIFACT,
        "signature": _ARTIFACT,
    },
}


class Call(BaseModel):
    """A request that the caller may send next."""

    method: str
    url: str
    body: dict[str, Any]


class BestView(BestShown):
    """The best configuration for a workload.

    If `match` is nearest, the configuration is that of a neighbour, the closest tuned shape. Until
    a worker has verified it, it was neither checked nor timed for this shape, and has no library.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    verify: Call | None = Field(
        None, description="the request that has a worker verify it; null if it is verified"
    )

    @classmethod
    def of(
        cls,
        workload: dict[str, Any],
        bests: Sequence[Best],
        lender: Neighbour | None = None,
    ) -> Self:
        """Return the view of a workload's bests, which are sorted fastest first and not empty.

        ``lender`` is the neighbour that lent the first best its configuration; None if a search
        found it."""
        told = best_fields(bests, _arithmetic(bests[0])) | {"workload": workload}
        if lender is not None:
            told["match"] = "nearest"
        return cls(verified=True, neighbour=lender, **told)

    @classmethod
    def lent(cls, workload: dict[str, Any], lenders: Sequence[Best], verify: Call) -> Self:
        """Return the view of a workload that has no best, with a neighbour's configuration.

        ``lenders`` are the neighbour's bests, fastest first and not empty. ``verify`` is the
        request that has a worker verify the configuration."""
        best = lenders[0]
        return cls(
            verified=False,
            verify=verify,
            neighbour=Neighbour(workload=best.workload, time_us=best.time_us),
            **borrowed_fields(lenders, _arithmetic(best))
            | {"workload": workload, "match": "nearest"},
        )


def _arithmetic(best: Best) -> Arithmetic | None:
    return arithmetic_of(best.operator, best.device.kind, best.template)
