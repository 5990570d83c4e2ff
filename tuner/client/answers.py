"""What the service answers, as the client gives it out: values with attributes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

ENDED = ("succeeded", "failed", "cancelled")


class Answer(BaseModel):
    """Read-only. Fields that a newer service adds are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Device(Answer):
    """A machine part that results belong to."""

    kind: str
    name: str
    arch: str


class TrialCounts(Answer):
    requested: int
    measured: int
    ok: int
    failed: int


class BestSoFar(Answer):
    config: dict[str, Any]
    time_us: float
    gflops: float | None = None


ServicePath = Annotated[str, Field(pattern="^/")]
"""Of the service that answered: elsewhere nobody is to be sent an API key."""


class Links(Answer):
    """Where more of a job is."""

    self: ServicePath
    trials: ServicePath
    events: ServicePath
    cancel: ServicePath
    best: ServicePath


class Progress(Answer):
    """What changes of a job while it runs."""

    device: Device | None = None
    trials: TrialCounts
    best: BestSoFar | None = None
    eta_seconds: float | None = None


class Job(Answer):
    """An order and how far it is; ``best`` is the best so far."""

    id: str
    state: str  # queued, running, succeeded, failed, cancelled
    operator: str
    workload: dict[str, Any]
    target: str
    device: Device | None = None
    search: str
    trials: TrialCounts
    best: BestSoFar | None = None
    eta_seconds: float | None = None
    attempt: int
    waiting: str | None = None  # why no living worker can take it
    error: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    links: Links

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def at(self, progress: Progress) -> Self:
        """The same job so far."""
        return self.model_copy(update=dict(progress))


class Trial(Answer):
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


class Trials(Answer):
    """One page of them."""

    items: list[Trial]
    next_cursor: str | None


class Artifact(Answer):
    """A file of the service: where it is, what it hashes to, its bytes."""

    url: ServicePath
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  # a name in the cache: nothing else may be in it
    size: int


class Signer(Answer):
    """A key that workers of the service sign with."""

    public_key: str = Field(pattern="^[0-9a-f]{64}$")
    host: str
    created_at: datetime


class Signers(Answer):
    items: list[Signer]


class Artifacts(Answer):
    library: Artifact | None = None
    source: Artifact | None = None
    manifest: Artifact | None = None
    record: Artifact | None = None
    signature: Artifact | None = None


class DeviceTime(Device):
    """One of the devices that have an answer."""

    time_us: float | None = None


class Neighbour(Answer):
    """The tuned shape that lends its configuration to a nearest match."""

    workload: dict[str, Any]
    time_us: float


class Fastest(Answer):
    """What was fastest in a best's round: ``convtune``, or a peer that one would rather call."""

    name: str
    time_us: float


class Arithmetic(Answer):
    """How a template sums, and what follows from it for the numbers that come out."""

    kind: str  # direct, fft, tensor cores
    spreads_nonfinite: bool  # whether a NaN of the input can reach outputs of which it is no term
    note: str


class Baseline(Answer):
    """What was measured beside the best: the default configuration, the naive schedule, a peer.
    Its time is None if it did not run, as ``error`` says; ``error`` beside a time: its numbers are
    wrong."""

    name: str
    time_us: float | None = None
    speedup: float | None = None  # of the best over it, of its call if ``level`` is call
    max_error: float | None = None
    error: str | None = None
    level: str | None = None  # kernel, call


class Best(Answer):
    """The best for a workload; ``threads`` of the CPU are what its library runs on. Times in
    microseconds; of a nearest match that is not verified they and the artifacts are None."""

    match: str  # exact, nearest
    verified: bool  # whether it was built, checked and timed for this shape
    operator: str
    workload: dict[str, Any]
    device: Device
    devices: list[DeviceTime] = []
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
