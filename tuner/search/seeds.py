"""What was fastest for other workloads and is valid for this one."""

from collections.abc import Sequence
from itertools import zip_longest

from tuner.search.strategy import Earlier


def seeds(workloads: Sequence[Sequence[Earlier]], each: int) -> list[int]:
    """The indices of the ``each`` fastest of every workload: first the fastest of all, the nearest
    workload's before the others', then the second fastest, and so on."""
    fastest = [[index for _, index in sorted(_valid(trials))[:each]] for trials in workloads]
    rounds = zip_longest(*fastest)
    return list(dict.fromkeys(index for turn in rounds for index in turn if index is not None))


def _valid(trials: Sequence[Earlier]) -> list[tuple[float, int]]:
    return [
        (trial.time_us, trial.index)
        for trial in trials
        if trial.time_us is not None and trial.index is not None
    ]
