"""Routes of the operators that can be tuned."""

from __future__ import annotations

from fastapi import APIRouter

from api.answers.given_once import GIVEN_ONCE
from api.problems.problems import documented
from api.schemas.common import Listing
from api.schemas.jobs import best_link
from api.schemas.operators import OperatorView
from templates import Operator, operator, operators

router = APIRouter(tags=["operators"], dependencies=[GIVEN_ONCE])


@router.get("/operators", summary="What can be tuned")
def list_operators() -> Listing[OperatorView]:
    """Return all operators, each with the JSON Schema of its workloads, and its templates."""
    return Listing(items=[_view(each) for each in operators()])


@router.get("/operators/{name}", summary="One operator", responses=documented(404))
def get_operator(name: str) -> OperatorView:
    """Return one operator, as `GET /operators` lists it."""
    return _view(operator(name))


def _view(each: Operator) -> OperatorView:
    return OperatorView.of(each, best_link(each.name, each.example))
