"""The contract may not import the tuner, so the strategies' names are written in both."""

from db.contract.order import STRATEGIES
from tuner.search import strategies


def test_the_contract_knows_the_tuners_strategies() -> None:
    assert list(STRATEGIES) == strategies()
