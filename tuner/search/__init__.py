"""Search strategies, by name. They know spaces and times, but nothing of kernels and devices.
MetaSchedule's search is not among them, because it has no space: see :mod:`tuner.plan.traced`."""

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
"""The strategies that a prior guides."""


def strategies() -> list[str]:
    """Return the names that an order may ask for, the default first. :func:`create` knows all of
    them except METASCHEDULE."""
    return [*_STRATEGIES, METASCHEDULE]


def create(
    name: str,
    space: SearchSpace,
    featurize: Featurize,
    seed: int | None,
    prior: Prior | None = None,
) -> Strategy:
    """Return a strategy that has seen no results. Raise UnknownStrategy if there is no strategy of
    that name here.

    ``featurize`` derives features from a configuration. Without a ``seed`` the search varies.
    ``prior`` gives the expected times of configurations; only strategies in GUIDED use it."""
    if name not in _STRATEGIES:
        raise UnknownStrategy(name, strategies())
    return _STRATEGIES[name](space, featurize, seed, prior)
