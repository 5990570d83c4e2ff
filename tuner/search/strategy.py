"""The interface of search strategies, ask and tell: a strategy proposes indices of a space, and is
told how fast they were."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from templates.spaces.search_space import SearchSpace
from tuner.search.features import Featurize

Prior = Callable[[Sequence[dict[str, Any]]], NDArray[np.float32]]
"""A function that returns what is expected of configurations before any is measured: a number for
each, smaller for faster ones. :class:`tuner.plan.ranker.Ranker` returns log2 of relative times."""


@dataclass(frozen=True)
class Result:
    """The result of trying one configuration: its time in µs, None if it failed."""

    index: int
    time_us: float | None

    def __post_init__(self) -> None:
        if self.time_us is not None and not 0 < self.time_us < math.inf:
            raise ValueError(f"a time is a positive number of microseconds, not {self.time_us}")


@dataclass(frozen=True)
class Earlier:
    """A trial of another workload, for a strategy to learn from."""

    config: dict[str, Any]
    derived: dict[str, float]
    """Features derived from the configuration for the other workload."""
    time_us: float | None
    """Its time in µs, None if it failed."""
    index: int | None
    """The configuration's index in this workload's space, None if it is not valid here."""
    expected: float = 0.0
    """What the prior expected of the configuration for the other workload."""


class Strategy(ABC):
    """A search strategy. It proposes each index at most once, and no index that it was told about.

    The same seed, space and results give the same proposals. Without a seed they vary.

    Subclasses read three attributes. ``results`` has the time in µs of each index that was told,
    None if it failed. ``seen`` has all indices that were proposed or told. ``starts`` has the
    indices that are worth an early trial.
    """

    name: ClassVar[str]

    def __init__(
        self,
        space: SearchSpace,
        featurize: Featurize,
        seed: int | None,
        prior: Prior | None = None,
    ) -> None:
        self.space = space
        self.featurize = featurize
        self.prior = prior
        self.rng = np.random.default_rng(seed)
        self.results: dict[int, float | None] = {}
        self.seen: set[int] = set()
        self.starts: Sequence[int] = ()

    def ask(self, count: int) -> list[int]:
        """Return the next ``count`` indices to try; fewer, and in the end none, when the space runs
        out."""
        count = min(count, len(self.space) - len(self.seen))
        proposed = self.propose(count) if count > 0 else []
        self.seen.update(proposed)
        return proposed

    def tell(self, results: Sequence[Result]) -> None:
        """Learn from results of indices that were asked for, or of an earlier job.

        Raise IndexError for an index outside the space.
        """
        for result in results:
            if not 0 <= result.index < len(self.space):
                raise IndexError(f"{result.index} is not in a space of {len(self.space)}")
        self.results.update((result.index, result.time_us) for result in results)
        self.seen.update(result.index for result in results)

    def warm_up(self, workloads: Sequence[Sequence[Earlier]]) -> bool:
        """Take trials of other workloads as a guide. ``workloads`` begins with the nearest. Return
        whether the strategy uses them."""
        return False

    def begin_with(self, indices: Sequence[int]) -> None:
        """Take indices that are worth an early trial. Only ``xgb`` tries them."""
        self.starts = indices

    @abstractmethod
    def propose(self, count: int) -> list[int]:
        """Return ``count`` different indices outside ``seen``. At least that many are left."""
