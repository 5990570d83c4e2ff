"""Search strategies by name. They know spaces and times, nothing of kernels or devices; but one,
which has no space: MetaSchedule's (:mod:`tuner.plan.traced`)."""

from templates.spaces.search_space import SearchSpace
from tuner.errors import UnknownStrategy
from tuner.search.evolutionary import Evolutionary
from tuner.search.features import Featurize
from tuner.search.grid import Grid
from tuner.search.predicted import Predicted
from tuner.search.random_search import RandomSearch
from tuner.search.strategy import Earlier, Prior, Result, Strategy
from tuner.search.xgb import Xgb

__all__ = [
    "DEFAULT",
    "GUIDED",
    "METASCHEDULE",
    "PREDICTED",
    "Earlier",
    "Prior",
    "Result",
    "SearchSpace",
    "Strategy",
    "create",
    "strategies",
]

_STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy for strategy in (Xgb, Evolutionary, RandomSearch, Grid, Predicted)
}
DEFAULT = Xgb.name
METASCHEDULE = "metaschedule"
PREDICTED = Predicted.name
GUIDED = (Xgb.name, Predicted.name)
"""Those that a prior guides."""


def strategies() -> list[str]:
    """The names that an order may have, the default first; `create` knows all but METASCHEDULE."""
    return [*_STRATEGIES, METASCHEDULE]


def create(
    name: str,
    space: SearchSpace,
    featurize: Featurize,
    seed: int | None,
    prior: Prior | None = None,
) -> Strategy:
    """A strategy that has seen nothing yet. Raises UnknownStrategy."""
    if name not in _STRATEGIES:
        raise UnknownStrategy(name, strategies())
    return _STRATEGIES[name](space, featurize, seed, prior)
