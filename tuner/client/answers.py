"""What the service answers, as the client gives it out: values with attributes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from db.contract.job import DeviceView, JobLinks, JobShown, Progress, ServicePath, Shown

ENDED = ("succeeded", "failed", "cancelled")


class Job(JobShown):
    links: JobLinks

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def at(self, progress: Progress) -> Self:
        """The same job so far."""
        return self.model_copy(update=dict(progress))


class Trial(Shown):
    """One configuration built, checked and measured, or the reason why not."""

    number: int  # from 1 within its job
    config: dict[str, Any]
    template: str
    status: str
    time_us: float | None = None
    timing: dict[str, Any] | None = None
    max_error: float | None = None
    error: str | None = None
    seconds: dict[str, float]
    created_at: datetime


class Trials(Shown):
    """One page of them."""

    items: list[Trial]
    next_cursor: str | None


class Artifact(Shown):
    """A file of the service: where it is, what it hashes to, its bytes."""

    url: ServicePath
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  # a name in the cache: nothing else may be in it
    size: int


class Signer(Shown):
    """A key that workers of the service sign with."""

    public_key: str = Field(pattern="^[0-9a-f]{64}$")
    host: str
    created_at: datetime


class Signers(Shown):
    items: list[Signer]


class Artifacts(Shown):
    library: Artifact | None = None
    source: Artifact | None = None
    manifest: Artifact | None = None
    record: Artifact | None = None
    signature: Artifact | None = None


class DeviceTime(DeviceView):
    """One of the devices that have an answer."""

    time_us: float | None = None


class Neighbour(Shown):
    """The tuned shape that lends its configuration to a nearest match."""

    workload: dict[str, Any]
    time_us: float


class Fastest(Shown):
    """What was fastest in a best's round: ``convtune``, or a peer that one would rather call."""

    name: str
    time_us: float


class Arithmetic(Shown):
    """How a template sums, and what follows from it for the numbers that come out."""

    kind: str  # direct, fft, tensor cores
    spreads_nonfinite: bool  # whether a NaN of the input can reach outputs of which it is no term
    note: str


class Baseline(Shown):
    """What was measured beside the best: the default configuration, the naive schedule, a peer.
    Its time is None if it did not run, as ``error`` says; ``error`` beside a time: its numbers are
    wrong."""

    name: str
    time_us: float | None = None
    speedup: float | None = None  # of the best over it, of its call if ``level`` is call
    max_error: float | None = None
    error: str | None = None
    level: str | None = None  # kernel, call


class Best(Shown):
    """The best for a workload; ``threads`` of the CPU are what its library runs on. Times in
    microseconds; of a nearest match that is not verified they and the artifacts are None."""

    match: str  # exact, nearest
    verified: bool  # whether it was built, checked and timed for this shape
    operator: str
    workload: dict[str, Any]
    device: DeviceView
    devices: list[DeviceTime] = Field([])
    neighbour: Neighbour | None = None
    config: dict[str, Any]
    template: str
    arithmetic: Arithmetic | None = None  # of a template that the service knows
    time_us: float | None = None
    timing: dict[str, Any] | None = None
    gflops: float | None = None
    roofline: dict[str, Any] | None = None
    max_error: float | None = None
    baselines: list[Baseline] | None = None
    fastest: Fastest | None = None
    threads: int | None = None
    trials: int
    job: str
    tuned_at: datetime
    versions: dict[str, Any]
    artifacts: Artifacts
