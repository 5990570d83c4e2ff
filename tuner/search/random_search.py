"""Uniformly at random: the yardstick for the strategies that learn."""

from tuner.search.strategy import Strategy


class RandomSearch(Strategy):
    """Ignores the results."""

    name = "random"

    def propose(self, count: int) -> list[int]:
        return self.space.sample(self.rng, count, exclude=self.seen)
