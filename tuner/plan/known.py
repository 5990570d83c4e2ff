"""The stored trials that a job does not repeat."""

from __future__ import annotations

from sqlalchemy.engine import Engine

from db.contract.job import Job
from db.results.trials import Trial, measured_trials
from db.sql.choices import MACHINE_ERROR
from tuner.errors import ChildTimeout
from tuner.measure.versions import TVM
from tuner.settings import Settings


def known_trials(engine: Engine, job: Job, device_id: int, settings: Settings) -> list[Trial]:
    """Return the stored trials of the job's workload on this device that the job does not repeat,
    oldest first.

    The job's own trials are among them. It repeats trials of other jobs that failed by
    MACHINE_ERROR, or were killed at a smaller limit than the settings have now.
    """
    limits = {"build_timeout": settings.build_seconds, "run_timeout": settings.run_seconds}

    def is_known(trial: Trial) -> bool:
        if trial.job_id == job.id:
            return True
        if trial.status not in limits:
            return trial.status != MACHINE_ERROR
        limit = ChildTimeout.limit_in(trial.error or "")
        return limit is None or limit >= limits[trial.status]

    stored = measured_trials(engine, job.workload_key, device_id, TVM)
    return [trial for trial in stored if is_known(trial)]
