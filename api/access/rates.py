"""How often somebody may ask: a token bucket each, in this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

BURST_SECONDS = 10.0
MOST_BUCKETS = 10_000


class Rates:
    """``per_second`` in the long run; who was quiet may ask for ten seconds' worth at once."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = max(1.0, BURST_SECONDS * per_second)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, and when

    def wait(self, who: str) -> float:
        """0 if the request is let through, and counted; else the seconds until one will be."""
        now = self._clock()
        level, then = self._buckets.pop(who, (self._burst, now))
        level = min(self._burst, level + (now - then) * self.per_second)
        allowed = level >= 1
        self._buckets[who] = (level - 1 if allowed else level, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)  # whoever has been quiet longest
        return 0.0 if allowed else (1 - level) / self.per_second
