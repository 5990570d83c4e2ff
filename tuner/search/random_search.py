"""Uniform random search, the yardstick for the strategies that learn."""

from tuner.search.strategy import Strategy


class RandomSearch(Strategy):
    """Proposes configurations uniformly at random, whatever the results."""

    name = "random"

    def propose(self, count: int) -> list[int]:
        return self.space.sample(self.rng, count, exclude=self.seen)
