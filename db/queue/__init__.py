"""The job queue: submit takes orders, lease lets workers take jobs and report on them, jobs reads,
cancel stops."""

from db.contract.job import Job
from db.contract.order import JobOrder
from db.queue.cancel import cancel
from db.queue.jobs import get, list_jobs
from db.queue.lease import (
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
from db.queue.submit import submit
from db.sql.choices import STATES, JobState

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
