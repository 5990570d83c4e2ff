"""Search in the order that a ranker expects, without learning from measurements."""

from tuner.search.diversify import rank_mixed_by_kind
from tuner.search.expected import Expected
from tuner.search.strategy import Strategy


class Predicted(Strategy):
    """Proposes configurations in the order of their expected times, and does not learn. Without a
    prior, and once the ranking is used up, the order is random."""

    name = "predicted"
    _ranking: list[int] | None = None

    def propose(self, count: int) -> list[int]:
        if self._ranking is None:
            self._ranking = self._ranked()
        ranking = [index for index in self._ranking if index not in self.seen][:count]
        more = self.space.sample(self.rng, count - len(ranking), {*self.seen, *ranking})
        return ranking + more

    def _ranked(self) -> list[int]:
        """Return the leading indices of all templates, mixed by kind; none without a prior."""
        if self.prior is None:
            return []
        expected = Expected(self.space, self.prior)
        parts = [expected.leading(self.rng, part) for part in self.space.parts]
        found = [index for part in parts for index in part]
        times = dict(zip(found, expected.scores(found).tolist(), strict=True))
        return rank_mixed_by_kind(times, self.space.__getitem__, self.space.neighbours)
