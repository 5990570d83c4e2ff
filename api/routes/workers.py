"""Route that lists the workers."""

from __future__ import annotations

from fastapi import APIRouter

from api.dependencies import EngineDep
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import Listing
from api.schemas.workers import WorkerView
from db.fleet import workers

router = APIRouter(tags=["workers"], dependencies=[StrictQuery])


@router.get("/workers", summary="The workers, their devices and their jobs")
def list_workers(engine: EngineDep) -> Listing[WorkerView]:
    """Return the workers by name. A worker that was not seen for a minute is not `alive`."""
    return Listing(
        items=[WorkerView.model_validate(worker) for worker in workers.list_workers(engine)]
    )
