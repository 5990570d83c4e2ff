"""The message for a shape that has no best yet."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.engine import Engine

from db.queue.waiting import devices_and_waiting_reasons, pending_job_for
from templates.workload import Workload
from tuner.terminal.options import as_options


def not_tuned_message(
    engine: Engine,
    workload: Workload,
    kind: str | None = None,
    device: str | None = None,
    templates: Collection[str] | None = None,
) -> str:
    """Return a message that names the job that will produce the best, or the command that orders
    it."""
    shape, wanted = f"{workload.operator} {as_options(workload)}", device or kind
    nothing = f"nothing is tuned for {shape}{f' on {wanted}' if wanted else ''}"
    job = pending_job_for(engine, workload.key, kind, device)
    if job is None:
        options = "".join(f" --template {name}" for name in templates or ())
        options += f" --target {kind}" if kind else ""
        return f"{nothing}; run{' there' if device else ''}: tuner tune {shape}{options}"
    [(_, waiting)] = devices_and_waiting_reasons(engine, [job])
    return (
        f"{nothing} yet: the job {job.id} is {job.state}"
        f"{f' ({waiting})' if waiting else ''}; wait for it: tuner jobs wait {job.id}"
    )
