"""Views of jobs with their devices and, for a job that no worker can take, the reason."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine

from api.schemas.jobs import JobView
from db.queue import Job
from db.queue.waiting import devices_and_waiting_reasons


def job_view(engine: Engine, job: Job) -> JobView:
    return job_views(engine, [job])[0]


def job_views(engine: Engine, jobs: Sequence[Job]) -> list[JobView]:
    return [
        JobView.of(job, *told)
        for job, told in zip(jobs, devices_and_waiting_reasons(engine, jobs), strict=True)
    ]
