"""A best: the fastest that was found for a workload on a device, as it is stored and shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from db.contract.job import DeviceView, ServicePath, Shown
from db.contract.spec import Spec


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was found. Of a configuration that a neighbour lends, and nobody has measured for this
    workload, the figures are None."""

    operator: str
    workload: Annotated[dict[str, Any], Spec("what was asked, defaults filled in")]
    template: str
    config: dict[str, Any]
    time_us: Annotated[float | None, Spec("warm median")]
    timing: Annotated[
        dict[str, Any] | None,
        Spec(
            "summaries: warm and cold of the kernel, call of `library(x, w, out=y)`; noise: how "
            "quiet the machine was; finalists: all of the last round"
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
    threads: Annotated[int | None, Spec("of the CPU, that the library runs on; null on a GPU")] = (
        None
    )


class DeviceTime(DeviceView):
    """One of the devices that have an answer; its time is null where none is claimed."""

    time_us: float | None = None


class Neighbour(Shown):
    """The tuned shape that a nearest match borrows from, and its own time."""

    workload: dict[str, Any]
    time_us: float


class Arithmetic(Shown):
    """How a template sums. ``spreads_nonfinite``: whether a NaN or an infinity of the input can
    change outputs of which it is no term. ``note`` says what a user has to know."""

    kind: Literal["direct", "fft", "tensor cores"]
    spreads_nonfinite: bool
    note: str


class Fastest(Shown):
    """A name among the baselines, or convtune; its time in microseconds."""

    name: str
    time_us: float


# a name in caches: nothing else may be in it. The document says text, so that a program which
# follows it asks for the digests of answers, not for invented ones.
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$"), WithJsonSchema({"type": "string"})]


class ArtifactLink(Shown):
    """A file to fetch: where it is, what it must hash to, its size in bytes."""

    url: ServicePath
    sha256: Sha256
    size: int


class ArtifactLinks(Shown):
    """The compiled library, its device source, its manifest, its MetaSchedule record, and the
    worker's signature over the manifest, which names the hashes of the others."""

    library: ArtifactLink | None = None
    source: ArtifactLink | None = None
    manifest: ArtifactLink | None = None
    record: ArtifactLink | None = None
    signature: ArtifactLink | None = Field(None, description="null of a best that nobody signed")


class BestShown(Shown, Result):
    """The best for a workload. Times are in microseconds; of a nearest match that is not verified
    they are null, and so are the artifacts."""

    match: Literal["exact", "nearest", "predicted"] = Field(
        description="exact: found for this shape; nearest: lent by a neighbour, which is named; "
        "predicted: expected to be fast, and not searched for"
    )
    verified: bool = Field(description="whether it was built, checked and timed for this shape")
    device: DeviceView
    devices: list[DeviceTime] = Field([], description="all that have an answer, fastest first")
    neighbour: Neighbour | None = Field(None, description="of a nearest match")
    arithmetic: Arithmetic | None = Field(
        None, description="how the template sums, and what follows; null of one of another release"
    )
    fastest: Fastest | None = Field(
        None, description="what was fastest in the round: convtune, or a peer to call instead"
    )
    trials: int
    job: str
    tuned_at: datetime
    artifacts: ArtifactLinks
