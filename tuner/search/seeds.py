"""Seeds: configurations that were fastest for other workloads and are valid for this one."""

from collections.abc import Sequence
from itertools import zip_longest

from tuner.search.strategy import Earlier


def seeds(workloads: Sequence[Sequence[Earlier]], each: int) -> list[int]:
    """Return the indices of each workload's ``each`` fastest configurations, without repeats.

    The fastest of all workloads come first, then the second fastest of all, and so on. Within each
    of these turns they are in the order of ``workloads``, which begins with the nearest."""
    fastest = [[index for _, index in sorted(_valid(trials))[:each]] for trials in workloads]
    rounds = zip_longest(*fastest)
    return list(dict.fromkeys(index for turn in rounds for index in turn if index is not None))


def _valid(trials: Sequence[Earlier]) -> list[tuple[float, int]]:
    return [
        (trial.time_us, trial.index)
        for trial in trials
        if trial.time_us is not None and trial.index is not None
    ]
