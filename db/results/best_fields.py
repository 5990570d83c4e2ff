"""The fields of a best in the service's answers and on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from db.contract.best import ArtifactLink, ArtifactLinks, DeviceTime, Result
from db.contract.order import PREDICTED
from db.results.best import Best
from db.results.fastest import fastest

FIGURES = ("time_us", "timing", "gflops", "roofline", "max_error", "baselines", "fastest")


def best_fields(bests: Sequence[Best], arithmetic: object | None) -> dict[str, Any]:
    """Return the fields of BestShown, except ``verified`` and ``neighbour``. ``bests`` are of one
    workload, fastest first, and not empty. The first is shown, and ``arithmetic`` is that of its
    template."""
    best = bests[0]
    fields = {name: getattr(best, name) for name in Result.__dataclass_fields__}
    return fields | {
        "match": PREDICTED if best.search == PREDICTED else "exact",
        "device": best.device,
        "devices": _devices(bests),
        "arithmetic": arithmetic,
        "fastest": fastest(best.timing, best.time_us, best.baselines),
        "trials": best.trials_measured,
        "job": best.job_id,
        "tuned_at": best.tuned_at,
        "artifacts": {
            kind: ArtifactLink(url=f"/artifacts/{sha256}", sha256=sha256, size=best.sizes[kind])
            for kind, sha256 in best.artifacts.items()
        },
    }


def borrowed_fields(lenders: Sequence[Best], arithmetic: object | None) -> dict[str, Any]:
    """Return the fields of `best_fields` for a workload without a best, from a neighbour's bests.
    Figures and artifacts are left out, because they are not of this workload."""
    fields = best_fields(lenders, arithmetic) | dict.fromkeys(FIGURES)
    devices = [each.model_copy(update={"time_us": None}) for each in fields["devices"]]
    return fields | {"devices": devices, "artifacts": ArtifactLinks()}


def _devices(bests: Sequence[Best]) -> list[DeviceTime]:
    """Return each device of these bests once, with the time of its first best, the fastest."""
    first: dict[int, Best] = {}
    for best in bests:
        first.setdefault(best.device.id, best)
    return [
        DeviceTime(
            kind=best.device.kind,
            name=best.device.name,
            arch=best.device.arch,
            time_us=best.time_us,
        )
        for best in first.values()
    ]
