"""The contract and the tuner list the same search strategies.

The contract may not import the tuner, so it repeats the names.
"""

from db.contract.order import STRATEGIES
from tuner.search import strategies


def test_the_contract_knows_the_tuners_strategies() -> None:
    assert list(STRATEGIES) == strategies()
