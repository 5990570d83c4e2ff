"""Route that lists the measured ladders of an operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.dependencies import EngineDep
from api.problems.problems import Problem, problem_responses
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import Listing
from api.schemas.ladders import LaddersQuery, LadderView
from db.results import ladders
from templates import operator as find_operator

router = APIRouter(tags=["ladders"], dependencies=[StrictQuery])


@router.get(
    "/ladders/{operator}",
    summary="The ladders of an operator, newest first",
    responses=problem_responses(404),
)
def list_ladders(
    operator: str, query: Annotated[LaddersQuery, Query()], engine: EngineDep
) -> Listing[LadderView]:
    """Return the newest measurement of the ladder for each shape on each device."""
    name = find_operator(operator).name
    kind = None if query.target == "auto" else query.target
    page = ladders.list_ladders(engine, name, kind, query.limit, query.cursor)
    if not page.items and query.cursor is None:
        where, option = (f" on a {kind} device", f" --target {kind}") if kind else ("", "")
        raise Problem(
            "not-climbed",
            f"no ladder of {name} has been climbed{where}; run: tuner ladder {name}{option} "
            "(with this service's TUNER_DATABASE_URL)",
        )
    return Listing[LadderView].model_validate(page)
