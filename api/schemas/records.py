"""The query of an export of records, and the JSON that answers an import."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from api.schemas.common import JOB_ID, BlankableQuery, OperatorName
from db.contract.job import Job
from db.records.imports import Stored
from db.records.listed import IMPORTED
from db.records.records import Filters
from db.sql.choices import Format, Kept, TrialStatus
from templates.conv1d.cpu.direct import CpuDirect
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.logs import Log
from templates.records.record import RecordLine

_JOB: dict[str, Any] = {
    "id": JOB_ID,
    "url": f"/jobs/{JOB_ID}",
    "operator": "conv1d",
    "workload": {"M": 16384, "N": 32},
    "target": "cuda",
    "configurations": 8,
    "created": True,
}
_REFUSED: dict[str, Any] = {
    "reason": "its padding is asymmetric: [0, 0, 1, 1]",
    "records": 12,
    "line": 23,
}

_SHAPE = Conv1dWorkload(M=16384, N=32)
_AVX512 = DeviceLimits(kind="cpu", arch="x86-64-v4", units=1, vector_bytes=64)
RECORD_EXAMPLE: dict[str, Any] = {
    "convtune": 1,
    "operator": _SHAPE.operator,
    "workload": {"M": _SHAPE.M, "N": _SHAPE.N},
    "target": CpuDirect.kind,
    "template": CpuDirect.name,
    "version": CpuDirect.version,
    "config": CpuDirect().default(_SHAPE, _AVX512),
}
_RECORD = {"$ref": f"#/components/schemas/{RecordLine.__name__}"}
RECORD_SCHEMA: dict[str, Any] = {
    "anyOf": [
        _RECORD,
        {
            "title": "MetaScheduleLine",
            "type": "object",
            "required": ["tuning_record", "convtune"],
            "properties": {"convtune": _RECORD},
        },
        {
            "title": "AutoTVMLine",
            "type": "object",
            "required": ["input"],
            "properties": {"input": {"type": "array", "minItems": 3}},
        },
        {
            "title": "T4Results",
            "type": "object",
            "required": ["results"],
            "properties": {"results": {"type": "array", "minItems": 1}},
        },
    ]
}
"""JSON Schema of a line of a log that can be imported, or of a document of T4 results."""


class RecordsQuery(BlankableQuery):
    """The query of an export: its format, and which trials or bests it has."""

    format: Format = Field(
        "convtune",
        description="convtune: our JSON lines, which POST /records takes; metaschedule: each line "
        "has a best's entries for both files of MetaSchedule's database; autotvm: its log; "
        "kerneltuner: T4 results",
    )
    of: Kept | None = Field(
        None,
        description="every trial, or only bests; default: trials, but bests for "
        "format=metaschedule",
    )
    operator: OperatorName | None = Field(None, description="only of this operator")
    target: Literal["auto", "cpu", "cuda"] = Field("auto", description="kind of device; auto: any")
    device: str | None = Field(None, max_length=200, description="only this device, by its name")
    job: str | None = Field(
        None, pattern="^[0-9a-f]{32}$", description="only the results of the job with this id"
    )
    status: TrialStatus | None = Field(None, description="only trials with this status")

    @model_validator(mode="after")
    def _kept(self) -> Self:
        if self.format == "metaschedule" and self.of == "trials":
            raise PydanticCustomError(
                "no_metaschedule_trials",
                "must be bests for metaschedule: only a best keeps its record",
                {"field": "of"},
            )
        return self

    def filters(self) -> Filters:
        """Return the filters as the storage takes them."""
        kind = None if self.target == "auto" else self.target
        return Filters(self.operator, kind, self.device, self.job, self.status)


class ImportedJob(BaseModel):
    """A job that an import made for one workload.

    It builds, checks and measures the imported configurations. If only the shape was taken from
    the log, it tunes that shape."""

    id: str
    url: str
    operator: str
    workload: dict[str, Any]
    target: str
    configurations: int | None = Field(
        description="number of the log's configurations that the job measures; null if it tunes "
        "only the shape"
    )
    created: bool = Field(
        description="false if an equal job was queued or running, or had tuned the shape already"
    )

    @classmethod
    def of(cls, job: Job, created: bool) -> Self:
        return cls(
            id=job.id,
            url=f"/jobs/{job.id}",
            operator=job.operator,
            workload=job.workload,
            target=job.target,
            configurations=job.trials if job.search == IMPORTED else None,
            created=created,
        )


class RefusedRecords(BaseModel):
    """Records that were not taken, all for the same reason."""

    reason: str
    records: int = Field(description="number of records; for orders over a quota, number of shapes")
    line: int | None = Field(
        description="position of the first such record in the log; null for orders over a quota"
    )


class ImportView(BaseModel):
    """The jobs that an import made.

    Nothing that was imported is a best before a worker has measured it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"format": "convtune", "records": 9, "jobs": [_JOB], "refused": []},
                {"format": "AutoTVM's log", "records": 97, "jobs": [], "refused": [_REFUSED]},
            ]
        }
    )

    format: str = Field(description="the format of the log")
    records: int
    jobs: list[ImportedJob]
    refused: list[RefusedRecords] = Field(
        description="records of another tool's log that were not imported; convtune's own logs are "
        "imported whole or not at all"
    )

    @classmethod
    def of(cls, log: Log, stored: Stored) -> Self:
        refused = [RefusedRecords(**vars(each)) for each in log.refused]
        if stored.why is not None:
            refused.append(RefusedRecords(reason=stored.why, records=stored.left, line=None))
        jobs = [ImportedJob.of(job, created) for job, created in stored.jobs]
        return cls(format=log.format, records=log.records, jobs=jobs, refused=refused)
