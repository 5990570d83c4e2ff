"""The service may not import the tuner, so the strategies' names are written in both."""

from typing import get_args

from api.schemas.order import Search
from tuner.search import strategies


def test_the_service_knows_the_tuners_strategies() -> None:
    assert set(get_args(Search)) == set(strategies())
