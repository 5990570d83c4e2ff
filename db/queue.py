"""The job queue: orders come in (submit), workers hold jobs under leases (lease), users look (jobs)
and change their minds (cancel)."""

from db.cancel import cancel
from db.choices import STATES, JobState
from db.jobs import Job, JobOrder, get, list_jobs
from db.lease import (
    LEASE_SECONDS,
    MAX_ATTEMPTS,
    SILENT_SECONDS,
    claim,
    excuse,
    finish,
    heartbeat,
    progress,
    release,
)
from db.submit import submit

__all__ = [
    "LEASE_SECONDS",
    "MAX_ATTEMPTS",
    "SILENT_SECONDS",
    "STATES",
    "Job",
    "JobOrder",
    "JobState",
    "cancel",
    "claim",
    "excuse",
    "finish",
    "get",
    "heartbeat",
    "list_jobs",
    "progress",
    "release",
    "submit",
]
