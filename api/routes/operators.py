"""Routes of the operators that can be tuned."""

from __future__ import annotations

from fastapi import APIRouter

from api.problems.problems import problem_responses
from api.route_helpers.strict_query import StrictQuery
from api.schemas.common import Listing
from api.schemas.jobs import best_link
from api.schemas.operators import OperatorView
from templates import Operator, operator, operators

router = APIRouter(tags=["operators"], dependencies=[StrictQuery])


@router.get("/operators", summary="What can be tuned")
def list_operators() -> Listing[OperatorView]:
    """Return all operators, each with the JSON Schema of its workloads, and its templates."""
    return Listing(items=[_view(each) for each in operators()])


@router.get("/operators/{name}", summary="One operator", responses=problem_responses(404))
def get_operator(name: str) -> OperatorView:
    """Return one operator, as `GET /operators` lists it."""
    return _view(operator(name))


def _view(each: Operator) -> OperatorView:
    return OperatorView.of(each, best_link(each.name, each.example))
