"""Routes that export what was measured as a log, and import logs."""

from __future__ import annotations

import json
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import StreamingResponse

from api.dependencies import EngineDep, ExportSlot
from api.problems.problems import Problem, problem_responses
from api.route_helpers.json_body import refuse_compressed
from api.route_helpers.strict_query import StrictQuery
from api.schemas.records import (
    RECORD_EXAMPLE,
    RECORD_SCHEMA,
    ImportView,
    RecordsQuery,
)
from db.contract.order import JobOrder
from db.records import imports, listed
from db.records.formats import WRITERS, export
from db.records.listed import ListedConfig, ListedOrder
from templates import logs

router = APIRouter(tags=["records"], dependencies=[StrictQuery])

LOG_TYPES = ("application/x-ndjson", "application/jsonl", "application/json")
_TEXT = {"schema": {"type": "string", "description": "one JSON object a line"}}
_LINES = {
    "type": "string",
    "contentMediaType": LOG_TYPES[0],
    "contentSchema": {"type": "array", "items": RECORD_SCHEMA},
}
_DOCUMENT = {"schema": {"type": "object", "description": "format=kerneltuner: T4 results"}}
_LOG: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The records, oldest first, streamed",
        "content": {"application/x-ndjson": _TEXT, "application/json": _DOCUMENT},
    },
    **problem_responses(404),
}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "lines of format=convtune or format=metaschedule, AutoTVM's log, or a "
        "document of T4 results; as application/json a single line, or that document",
        "content": {
            LOG_TYPES[0]: {
                "schema": _LINES,
                "example": json.dumps(RECORD_EXAMPLE) + "\n",
            },
            "application/json": {"schema": RECORD_SCHEMA, "example": RECORD_EXAMPLE},
        },
    }
}


@router.get(
    "/records",
    summary="Export what was measured as a log",
    response_class=StreamingResponse,
    responses=_LOG,
    dependencies=[ExportSlot],
)
def get_records(query: Annotated[RecordsQuery, Query()], engine: EngineDep) -> StreamingResponse:
    """Stream what was measured, in the format of this or another tool.

    The log may have any length. Results that are stored while it is sent are not in it."""
    writer = WRITERS[query.format]
    pieces = export(engine, query.format, query.filters(), query.of)
    first = next(pieces)  # a failure shows here, before the answer begins
    name = f"convtune-{query.format}{writer.suffix}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(chain([first], pieces), headers=headers, media_type=writer.media_type)


async def _log(request: Request) -> bytes:
    """Return the body. Raise Problem if its type is none of LOG_TYPES, or it is compressed."""
    refuse_compressed(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in LOG_TYPES:
        raise Problem(
            "unsupported-media-type",
            f"the body must be JSON lines; send it with content-type: {LOG_TYPES[0]}",
        )
    return await request.body()


@router.post(
    "/records",
    status_code=201,
    summary="Have a log's configurations measured, or its shapes tuned, here",
    responses=problem_responses(413, 415),
    openapi_extra=_BODY,
)
def import_records(log: Annotated[bytes, Depends(_log)], engine: EngineDep) -> ImportView:
    """Import a log: order jobs that measure its configurations, or that tune its shapes.

    The times in a log are not believed. For each workload in it, a job builds, checks and measures
    the log's configurations, and only what that job finds can become a best. Either all of these
    records are taken, or none.

    From AutoTVM's logs and T4 results only the shapes are taken, because their configurations are
    those of another program. Each shape becomes an order to tune it. `refused` tells which records
    were not taken and why: their shape can't be expressed here, or too many jobs are unfinished."""
    read = logs.read(log)
    configs = [
        ListedOrder(
            JobOrder.of(each.workload, target=each.target, search=listed.IMPORTED),
            [ListedConfig(each.config, each.template_version, each.source)],
        )
        for each in read.configs
    ]
    shapes = [JobOrder.of(each.workload, target=each.target) for each in read.shapes]
    return ImportView.of(read, imports.store(engine, configs, shapes))
