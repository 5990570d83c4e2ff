"""Ask and tell: a strategy proposes indices of a space and hears how fast they were."""

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
"""What is expected of configurations before any is measured: numbers on a scale of its own, less
for what is faster."""


@dataclass(frozen=True)
class Result:
    """What became of one configuration; `time_us` is None if it failed."""

    index: int
    time_us: float | None

    def __post_init__(self) -> None:
        if self.time_us is not None and not 0 < self.time_us < math.inf:
            raise ValueError(f"a time is a positive number of microseconds, not {self.time_us}")


@dataclass(frozen=True)
class Earlier:
    """A trial of another workload, with what is derived from its configuration there; ``index`` is
    that configuration's place in this space, None if it has none; ``expected`` is what the prior
    expected of it there."""

    config: dict[str, Any]
    derived: dict[str, float]
    time_us: float | None
    index: int | None
    expected: float = 0.0


class Strategy(ABC):
    """Proposes each index at most once, and none that it was told about.

    The same seed, space and results give the same proposals; without a seed they vary.
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

    def ask(self, count: int) -> list[int]:
        """The next `count` indices to try; fewer, at last none, when the space runs out."""
        count = min(count, len(self.space) - len(self.seen))
        proposed = self.propose(count) if count > 0 else []
        self.seen.update(proposed)
        return proposed

    def tell(self, results: Sequence[Result]) -> None:
        """Results of any origin: what was asked for, or what an earlier job measured.

        Raises IndexError for an index outside the space.
        """
        for result in results:
            if not 0 <= result.index < len(self.space):
                raise IndexError(f"{result.index} is not in a space of {len(self.space)}")
        self.results.update((result.index, result.time_us) for result in results)
        self.seen.update(result.index for result in results)

    def warm_up(self, workloads: Sequence[Sequence[Earlier]]) -> bool:
        """Take trials of other workloads as a guide, the nearest workload's first. Whether they
        are: not every strategy has a use for them."""
        return False

    @abstractmethod
    def propose(self, count: int) -> list[int]:
        """`count` different indices outside `seen`, of which at least that many are left."""
