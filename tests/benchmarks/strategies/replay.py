"""Replay a search on a space whose times are all known, without building or running anything."""

from collections.abc import Iterator, Sequence

from tuner.search.strategy import Result, Strategy

WITHIN = 1.05
"""A time this close to the optimum counts as found."""


def replay(
    strategy: Strategy, times: Sequence[float | None], batch: int
) -> Iterator[tuple[int, float | None]]:
    """Yield the index and the time of each trial, in order.

    ``times`` has each configuration's time, None if it failed. As in a job, a batch is requested
    after the results of the previous batch have been told.
    """
    while asked := strategy.ask(batch):
        for index in asked:
            yield index, times[index]
        strategy.tell([Result(index, times[index]) for index in asked])


def good_enough(times: Sequence[float | None]) -> float:
    """Return the longest time that counts as found. Raise ValueError if all failed."""
    return WITHIN * min(time for time in times if time is not None)


def trials_to_good(strategy: Strategy, times: Sequence[float | None], batch: int) -> int:
    """Return the number of trials until one is good enough.

    Raise ValueError if all configurations failed, or if the strategy proposes no good configuration
    because it was told all good ones before.
    """
    limit = good_enough(times)
    for number, (_, time_us) in enumerate(replay(strategy, times, batch), 1):
        if time_us is not None and time_us <= limit:
            return number
    raise ValueError("the space ran out before a good configuration was asked for")
