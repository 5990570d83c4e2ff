"""A best as it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.common import CONFIG, DEVICE, JOB_ID, SHA256
from db.contract.job import DeviceView
from db.results.best import Best
from db.results.fastest import fastest
from templates import arithmetic_of
from templates.arithmetic import DIRECT, Arithmetic

_ARTIFACT = {"url": f"/artifacts/{SHA256}", "sha256": SHA256, "size": 48_112}
_EXAMPLE: dict[str, Any] = {
    "match": "exact",
    "verified": True,
    "verify": None,
    "operator": "conv1d",
    "workload": {
        "M": 16384,
        "N": 32,
        "mode": "full",
        "kind": "convolve",
        "dtype": "float32",
        "max_error": 1e-5,
    },
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


class DeviceTime(DeviceView):
    """One of the devices that have an answer; its time is null where none is claimed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**DEVICE, "time_us": 1.71}]})

    time_us: float | None


class Neighbour(BaseModel):
    """The tuned shape that a nearest match borrows from, and its own time."""

    workload: dict[str, Any]
    time_us: float


class ArtifactLink(BaseModel):
    """A file to fetch: where it is, what it must hash to, its size in bytes."""

    url: str
    sha256: str
    size: int


class ArtifactLinks(BaseModel):
    """The compiled library, its device source, its manifest, its MetaSchedule record, and the
    worker's signature over the manifest, which names the hashes of the others."""

    library: ArtifactLink | None = None
    source: ArtifactLink | None = None
    manifest: ArtifactLink | None = None
    record: ArtifactLink | None = None
    signature: ArtifactLink | None = Field(None, description="null of a best that nobody signed")

    @classmethod
    def of(cls, best: Best) -> Self:
        links = {
            kind: ArtifactLink(url=f"/artifacts/{sha256}", sha256=sha256, size=best.sizes[kind])
            for kind, sha256 in best.artifacts.items()
        }
        return cls(**links)


class Fastest(BaseModel):
    """A name among the baselines, or convtune; its time in microseconds."""

    name: str
    time_us: float


class Call(BaseModel):
    """A request to send."""

    method: str
    url: str
    body: dict[str, Any]


class BestView(BaseModel):
    """The best configuration for a workload. A nearest match is a neighbour's: until a worker has
    verified it, it was neither timed nor checked for this shape, and has no library."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    match: Literal["exact", "nearest"] = Field(
        description="exact: found for this shape; nearest: lent by a neighbour, which is named"
    )
    verified: bool = Field(description="whether it was built, checked and timed for this shape")
    verify: Call | None = Field(description="what has a worker do so, where it was not")
    operator: str
    workload: dict[str, Any] = Field(description="what was asked, defaults filled in")
    device: DeviceView
    devices: list[DeviceTime] = Field(description="all that have an answer, fastest first")
    neighbour: Neighbour | None = Field(description="of a nearest match")
    config: dict[str, Any]
    template: str
    arithmetic: Arithmetic | None = Field(
        description="how the template sums, and what follows; null of one of another release"
    )
    time_us: float | None = Field(description="warm median")
    timing: dict[str, Any] | None = Field(
        description="summaries: warm and cold of the kernel, call of `library(x, w, out=y)`; "
        "noise: how quiet the machine was; finalists: all of the last round"
    )
    gflops: float | None
    roofline: dict[str, Any] | None = Field(description="bound, floor_us, fraction")
    max_error: float | None
    baselines: list[dict[str, Any]] | None = Field(
        description="name, time_us, speedup, max_error, level of each; error if it failed or is "
        "wrong. A row of level call is compared with our call, others with our kernel"
    )
    fastest: Fastest | None = Field(
        description="what was fastest in the round: convtune, or a peer to call instead"
    )
    threads: int | None = Field(description="of the CPU, that the library runs on; null on a GPU")
    trials: int
    job: str
    tuned_at: datetime
    versions: dict[str, Any]
    artifacts: ArtifactLinks

    @classmethod
    def of(
        cls,
        workload: dict[str, Any],
        bests: Sequence[Best],
        lender: Neighbour | None = None,
    ) -> Self:
        """``bests`` are of this workload, fastest first and not empty; ``lender`` where the first
        one's configuration was borrowed from."""
        best = bests[0]
        return cls(
            match="nearest" if lender else "exact",
            verified=True,
            verify=None,
            workload=workload,
            devices=_devices(bests),
            neighbour=lender,
            time_us=best.time_us,
            timing=best.timing,
            gflops=best.gflops,
            roofline=best.roofline,
            max_error=best.max_error,
            baselines=best.baselines,
            fastest=Fastest(**fastest(best.timing, best.time_us, best.baselines)),
            artifacts=ArtifactLinks.of(best),
            **_provenance(best),
        )

    @classmethod
    def lent(cls, workload: dict[str, Any], lenders: Sequence[Best], verify: Call) -> Self:
        """``lenders`` are the bests of a neighbour, fastest first and not empty."""
        best = lenders[0]
        return cls(
            match="nearest",
            verified=False,
            verify=verify,
            workload=workload,
            devices=[_device_time(each, None) for each in lenders],
            neighbour=Neighbour(workload=best.workload, time_us=best.time_us),
            time_us=None,
            timing=None,
            gflops=None,
            roofline=None,
            max_error=None,
            baselines=None,
            fastest=None,
            artifacts=ArtifactLinks(),
            **_provenance(best),
        )


def _devices(bests: Sequence[Best]) -> list[DeviceTime]:
    """Each once, with its fastest."""
    first: dict[int, Best] = {}
    for best in bests:
        first.setdefault(best.device.id, best)
    return [_device_time(best, best.time_us) for best in first.values()]


def _device_time(best: Best, time_us: float | None) -> DeviceTime:
    device = best.device
    return DeviceTime(kind=device.kind, name=device.name, arch=device.arch, time_us=time_us)


def _provenance(best: Best) -> dict[str, Any]:
    return {
        "operator": best.operator,
        "device": DeviceView.model_validate(best.device),
        "config": best.config,
        "template": best.template,
        "threads": best.threads,
        "arithmetic": arithmetic_of(best.operator, best.device.kind, best.template),
        "trials": best.trials_measured,
        "job": best.job_id,
        "tuned_at": best.tuned_at,
        "versions": best.versions,
    }
