"""The lanes of a block (vectors of channels), and the number of threads for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from templates.dtypes import BYTES_PER_ELEMENT

SECTOR_BYTES = 32  # memory is read in whole sectors
MIN_FILLED_SHARE = 0.85  # the share of threads that should have a lane
USUAL_THREADS = 128


def divisors(channels: int, limits: Sequence[int]) -> list[int]:
    """Return the largest divisor of ``channels`` up to each of the limits."""
    found = [n for n in range(1, limits[-1] + 1) if channels % n == 0]
    return sorted({max(n for n in found if n <= most) for most in limits})


def are_wide_enough(config: dict[str, Any], lanes: Sequence[int], dtype: str) -> bool:
    """Return whether a block reads whole sectors, or as much as it can with single channels."""
    size = BYTES_PER_ELEMENT[dtype]
    read = config["lanes"] * config["channels"] * size
    return bool(read >= min(SECTOR_BYTES, lanes[-1] * size))


def are_filled(threads: int, lanes: int, choices: Sequence[int]) -> bool:
    """Return whether most threads have a lane, or else as many as for the best of the choices."""
    return _share(threads, lanes) >= min(
        MIN_FILLED_SHARE, max(_share(each, lanes) for each in choices)
    )


def usual_threads(lanes: int, choices: Sequence[int]) -> int:
    """Return 128, or the first of the choices that is filled if 128 threads are not."""
    return next(n for n in (USUAL_THREADS, *choices) if are_filled(n, lanes, choices))


def _share(threads: int, lanes: int) -> float:
    """Return the share of threads that have a lane."""
    return threads // lanes * lanes / threads
