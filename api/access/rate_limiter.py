"""A limit on how often each caller may send requests: token buckets in this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

BURST_SECONDS = 10.0
MAX_BUCKETS = 10_000


class RateLimiter:
    """At most ``per_second`` requests of each caller in the long run.

    A caller who was quiet may send the requests of BURST_SECONDS at once."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = max(1.0, BURST_SECONDS * per_second)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, since when

    def acquire(self, who: str) -> float:
        """Count a request and return 0, or return the seconds until one will be allowed."""
        now = self._clock()
        level, then = self._buckets.pop(who, (self._burst, now))
        level = min(self._burst, level + (now - then) * self.per_second)
        allowed = level >= 1
        self._buckets[who] = (level - 1 if allowed else level, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)  # of the caller who has been quiet longest
        return 0.0 if allowed else (1 - level) / self.per_second
