"""The JSON of a job, and the queries of lists of jobs and trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from pydantic import ConfigDict, Field, create_model

from api.schemas.common import (
    CONFIG,
    DEVICE,
    JOB_ID,
    WORKLOAD,
    OperatorPageQuery,
    PageQuery,
    in_query,
)
from db.contract.job import Job, JobLinks, JobShown, job_fields
from db.contract.order import JobFilter, Terms, terms_of
from db.contract.requests import pydantic_fields
from db.fleet.devices import Device
from db.sql.choices import TrialStatus

_EXAMPLE: dict[str, Any] = {
    "id": JOB_ID,
    "state": "running",
    "operator": "conv1d",
    "workload": WORKLOAD,
    **asdict(Terms()),
    "device": DEVICE,
    "warm_start": {"enabled": True, "jobs": 2, "trials": 128},
    "trials": {"requested": 64, "measured": 24, "ok": 22, "failed": 2},
    "best": {"config": CONFIG, "time_us": 1.71, "gflops": 614.3},
    "eta_seconds": 7.5,
    "attempt": 1,
    "cancel_requested": False,
    "worker": "gpu-host-1:4711",
    "waiting": None,
    "error": None,
    "created_at": "2025-11-20T17:00:00Z",
    "started_at": "2025-11-20T17:00:01Z",
    "finished_at": None,
    "links": {
        "self": f"/jobs/{JOB_ID}",
        "trials": f"/jobs/{JOB_ID}/trials",
        "events": f"/jobs/{JOB_ID}/events",
        "cancel": f"/jobs/{JOB_ID}/cancel",
        "best": "/best/conv1d?M=16384&N=32",
    },
}


if TYPE_CHECKING:

    class JobsQuery(OperatorPageQuery, JobFilter): ...
else:
    _WANTED = pydantic_fields(JobFilter)
    del _WANTED["operator"]  # the base has this field, and checks its names
    JobsQuery = create_model("JobsQuery", __base__=OperatorPageQuery, **_WANTED)


class TrialsQuery(PageQuery):
    """The query of a list of a job's trials."""

    limit: int = Field(100, ge=1, le=1000, description="items a page")
    status: TrialStatus | None = Field(None, description="only with this status")


class JobView(JobShown):
    """A user's order to tune a workload, and how far it is.

    `links.best` is answered with 404 until there is a best."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    links: JobLinks

    @classmethod
    def of(cls, job: Job, device: Device | None, waiting: str | None) -> Self:
        return cls(**job_fields(job, device, waiting), links=_links(job))


def _links(job: Job) -> JobLinks:
    here = f"/jobs/{job.id}"
    return JobLinks(
        self=here,
        trials=f"{here}/trials",
        events=f"{here}/events",
        cancel=f"{here}/cancel",
        best=link_to_best(job.operator, job.workload, terms_of(job)),
    )


def link_to_best(operator: str, workload: Mapping[str, object], terms: Mapping[str, Any]) -> str:
    """Return the URL of the best that answers an order of this workload on these terms."""
    asked = dict(workload)
    if terms["target"] != "auto":
        asked["target"] = terms["target"]
    if terms.get("for_device") is not None:  # models of earlier releases lack it
        asked["device"] = terms["for_device"]
    if terms["templates"] is not None:
        asked["templates"] = ",".join(terms["templates"])
    return best_link(operator, asked)


def best_link(operator: str, query: Mapping[str, object]) -> str:
    """Return the URL of an operator's best for a shape and filters."""
    return f"/best/{operator}?{in_query(query)}"
