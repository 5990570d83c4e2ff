"""Grid search: every configuration, in the order of the space."""

from tuner.search.strategy import Strategy


class Grid(Strategy):
    """Proposes all configurations in order, for small spaces and repeatable sweeps. Results and
    seed do not matter."""

    name = "grid"
    _next = 0

    def propose(self, count: int) -> list[int]:
        proposed: list[int] = []
        while len(proposed) < count:
            if self._next not in self.seen:
                proposed.append(self._next)
            self._next += 1
        return proposed
