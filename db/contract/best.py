"""The best of a workload on a device, as it is stored and as the service shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from db.contract.job import DeviceView, ServicePath, Shown
from db.contract.spec import Spec


@dataclass(frozen=True, kw_only=True)
class Result:
    """A configuration for a workload, and its figures. The figures are None if the configuration is
    lent by a neighbour and was not measured for this workload."""

    operator: str
    workload: Annotated[dict[str, Any], Spec("the requested workload, with its defaults filled in")]
    template: str
    config: dict[str, Any]
    time_us: Annotated[float | None, Spec("warm median")]
    timing: Annotated[
        dict[str, Any] | None,
        Spec(
            "summaries of times: warm and cold, of the kernel; call, of `library(x, w, out=y)`; "
            "finalists, of all in the last round. noise: how quiet the machine was"
        ),
    ]
    gflops: float | None
    roofline: Annotated[dict[str, Any] | None, Spec("bound, floor_us, fraction")]
    max_error: float | None
    baselines: Annotated[
        list[dict[str, Any]] | None,
        Spec(
            "name, time_us, speedup, max_error, level of each; error if it failed or is wrong. A "
            "row of level call is compared with our call, others with our kernel. One with "
            "measured_at was timed by an earlier job, with the same versions"
        ),
    ]
    versions: dict[str, Any]
    threads: Annotated[int | None, Spec("CPU threads that the library runs on; null on a GPU")] = (
        None
    )


class DeviceTime(DeviceView):
    """A device that has an answer, and its time in microseconds (warm median). The time is null if
    the match is nearest and not verified, because it was not measured for this shape."""

    time_us: float | None = None


class Neighbour(Shown):
    """The tuned shape whose configuration a nearest match borrows, and that shape's own time in
    microseconds."""

    workload: dict[str, Any]
    time_us: float


class Arithmetic(Shown):
    """The arithmetic in which a template computes its sums. ``spreads_nonfinite`` is true if a NaN
    or an infinity in the input can change outputs in whose sums that element has no term. ``note``
    says what a user has to know about this arithmetic."""

    kind: Literal["direct", "fft", "tensor cores"]
    spreads_nonfinite: bool
    note: str


class Fastest(Shown):
    """The fastest of the round, convtune's kernel or a peer, and its time in microseconds."""

    name: str
    time_us: float


# The pattern is strict because clients' caches use the digest as a file name. The OpenAPI document
# declares a plain string. So a program that is driven by the document sends digests from answers
# instead of generating some from the pattern.
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$"), WithJsonSchema({"type": "string"})]


class ArtifactLink(Shown):
    """A file to fetch: its path at the service, the SHA-256 of its bytes, and its size in bytes."""

    url: ServicePath
    sha256: Sha256
    size: int


class ArtifactLinks(Shown):
    """The files of a best: the compiled library, its device source, its manifest, its MetaSchedule
    record, and the worker's signature of the manifest. The manifest names the hashes of library,
    source and record."""

    library: ArtifactLink | None = None
    source: ArtifactLink | None = None
    manifest: ArtifactLink | None = None
    record: ArtifactLink | None = None
    signature: ArtifactLink | None = Field(None, description="null if the best is unsigned")


class BestShown(Shown, Result):
    """The best for a workload. Times are in microseconds. If the match is nearest and not verified,
    all figures and all artifacts are null."""

    match: Literal["exact", "nearest", "predicted"] = Field(
        description="exact: found for this shape; nearest: borrowed from the neighbour; "
        "predicted: expected to be fast, and not searched for"
    )
    verified: bool = Field(description="whether it was built, checked and timed for this shape")
    device: DeviceView
    devices: list[DeviceTime] = Field(
        [], description="all devices that have an answer, fastest first"
    )
    neighbour: Neighbour | None = Field(
        None, description="the closest tuned shape, whose configuration a nearest match borrows"
    )
    arithmetic: Arithmetic | None = Field(
        None,
        description="the arithmetic of the template's sums and its consequences; null if the "
        "template is of another release",
    )
    fastest: Fastest | None = Field(
        None, description="what was fastest in the round: convtune, or a peer to call instead"
    )
    trials: int
    job: str
    tuned_at: datetime
    artifacts: ArtifactLinks
