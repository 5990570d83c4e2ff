"""The JSON of a measured ladder, and the query of a list of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from api.schemas.common import DEVICE, WORKLOAD, PageQuery
from db.contract.job import DeviceView, Shown

_ROW: dict[str, Any] = {
    "name": "000 v2",
    "what": "rung",
    "adds": "eight threads a block",
    "document": "000",
    "time_us": 4.6,
    "timing": {"warm": {"median_us": 4.6, "p10_us": 4.5, "p90_us": 4.7}},
    "max_error": 2.4e-7,
    "over_naive": 1604.0,
    "over_before": 5.9,
    "t4_us": 25.1,
    "note": None,
}
_DOCUMENT: dict[str, Any] = {
    "number": "000",
    "title": "TVM: 1D convolution GPU optimization",
    "workload": WORKLOAD,
}
_EXAMPLE: dict[str, Any] = {
    "operator": "conv1d",
    "workload": WORKLOAD,
    "device": DEVICE,
    "rows": [_ROW],
    "documents": [_DOCUMENT],
    "clocks": {"sm_mhz": 1980},
    "versions": {"convtune": "0.1.0", "apache-tvm": "0.27.0"},
    "climbed_at": "2025-11-20T17:01:00Z",
}


class LaddersQuery(PageQuery):
    """The query of a list of ladders."""

    target: Literal["auto", "cpu", "cuda"] = Field("auto", description="kind of device")


class RowView(Shown):
    """One row of a ladder: a rung, or something that the rungs are compared with.

    Times are in µs, speed-ups are ratios."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ROW]})

    name: str
    what: str = Field(description="rung, best, peer, empty or floor")
    adds: str = Field(description="what it adds to the previous rung")
    document: str | None = Field(description="number of a rung's seed document")
    time_us: float | None = Field(description="warm median; null if it was not timed")
    timing: dict[str, Any] | None
    max_error: float | None
    over_naive: float | None = Field(description="times faster than the first rung")
    over_before: float | None = Field(description="times faster than the document's previous rung")
    t4_us: float | None = Field(description="the document's own time, on its T4 and for its shape")
    note: str | None = Field(
        description="why there is no time, which rung is the same program, or what a search found"
    )


class DocumentView(Shown):
    """A seed document that rungs are from, and the workload of the document's own figures."""

    model_config = ConfigDict(json_schema_extra={"examples": [_DOCUMENT]})

    number: str
    title: str
    workload: dict[str, Any]


class LadderView(Shown):
    """A ladder: the schedules of the seed documents, measured in one round on one device."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    operator: str
    workload: dict[str, Any]
    device: DeviceView
    rows: list[RowView]
    documents: list[DocumentView]
    clocks: dict[str, Any] = Field(description="clocks of a GPU, right after the round")
    versions: dict[str, Any]
    climbed_at: datetime
