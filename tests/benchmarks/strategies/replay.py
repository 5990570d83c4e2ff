"""A search replayed on a space whose times are all known: nothing is built or run."""

from collections.abc import Iterator, Sequence

from tuner.search.strategy import Result, Strategy

WITHIN = 1.05
"""A time this close to the optimum counts as found."""


def replay(
    strategy: Strategy, times: Sequence[float | None], batch: int
) -> Iterator[tuple[int, float | None]]:
    """Each index with its time, in the order of its trial. ``times`` has one a configuration, None
    if it failed; as in a job, a batch is asked for when the one before has been told."""
    while asked := strategy.ask(batch):
        for index in asked:
            yield index, times[index]
        strategy.tell([Result(index, times[index]) for index in asked])


def good_enough(times: Sequence[float | None]) -> float:
    """The time that counts as found. Raises ValueError if all failed."""
    return WITHIN * min(time for time in times if time is not None)


def trials_to_good(strategy: Strategy, times: Sequence[float | None], batch: int) -> int:
    """How many trials it takes until one is good enough. Raises ValueError if all failed, or
    the strategy was told of the good ones."""
    limit = good_enough(times)
    for number, (_, time_us) in enumerate(replay(strategy, times, batch), 1):
        if time_us is not None and time_us <= limit:
            return number
    raise ValueError("the space ran out before a good configuration was asked for")
