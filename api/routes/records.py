"""Logs for other tools: the MetaSchedule records of the bests."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query

from api.dependencies import EngineDep
from api.schemas.common import Listing, OperatorPageQuery
from db import artifacts, best

router = APIRouter(tags=["records"])


@router.get("/records", summary="MetaSchedule records of the bests, newest first")
def list_records(query: Annotated[OperatorPageQuery, Query()], engine: EngineDep) -> Listing[Any]:
    """A best that has no record leaves no item; a page may hold fewer than ``limit``."""
    page = best.list_best(engine, query.operator, query.limit, query.cursor)
    items = [
        json.loads(artifacts.get(engine, row.artifacts["record"]).content)
        for row in page.items
        if "record" in row.artifacts
    ]
    return Listing(items=items, next_cursor=page.next_cursor)
