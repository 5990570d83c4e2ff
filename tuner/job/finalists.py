"""The choice of the finalists: configurations that are measured again at a job's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Config = dict[str, Any]

CLOSE = 1.10
FEWEST, MOST = 5, 8
OF_EACH = 2  # on one thread, and on several


def finalists(
    trials: Sequence[tuple[Config, float]],
    stored: Sequence[Config],
    threads: Callable[[Config], int | None],
) -> list[Config]:
    """Return the finalists, each once, in this order.

    - The five fastest configurations of ``trials`` (pairs of configuration and µs), and up to three
      more that are within 10 % of the fastest.
    - The two fastest on one thread, for programs that have no more, and the two fastest on several.
    - The ``stored`` bests, which the round may replace.

    ``threads`` gives a configuration's number of CPU threads, None on a GPU.
    """
    ranked = sorted(trials, key=lambda trial: trial[1])
    close = [
        config
        for place, (config, time) in enumerate(ranked[:MOST])
        if place < FEWEST or time <= CLOSE * ranked[0][1]
    ]
    serial = [config for config, _ in ranked if threads(config) == 1][:OF_EACH]
    parallel = [config for config, _ in ranked if threads(config) not in (1, None)][:OF_EACH]
    chosen: list[Config] = []
    for config in (*close, *serial, *parallel, *stored):
        if config not in chosen:
            chosen.append(config)
    return chosen
