"""The lanes of a block, which are vectors of channels, and how many threads it has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from templates.dtypes import BYTES_PER_ELEMENT

SECTOR_BYTES = 32  # of memory, which is read as a whole
MOST = 0.85
USUAL = 128


def divisors(channels: int, limits: Sequence[int]) -> list[int]:
    """Of the channels, the largest up to each of the limits."""
    found = [n for n in range(1, limits[-1] + 1) if channels % n == 0]
    return sorted({max(n for n in found if n <= most) for most in limits})


def are_wide_enough(config: dict[str, Any], lanes: Sequence[int], dtype: str) -> bool:
    """Whether a block reads whole sectors, or as much as the most lanes of one channel."""
    size = BYTES_PER_ELEMENT[dtype]
    read = config["lanes"] * config["channels"] * size
    return bool(read >= min(SECTOR_BYTES, lanes[-1] * size))


def are_filled(threads: int, lanes: int, choices: Sequence[int]) -> bool:
    """Whether most threads have a lane, or as many as with any choice."""
    return _share(threads, lanes) >= min(MOST, max(_share(each, lanes) for each in choices))


def usual_threads(lanes: int, choices: Sequence[int]) -> int:
    """128, or if these are not filled another choice."""
    return next(n for n in (USUAL, *choices) if are_filled(n, lanes, choices))


def _share(threads: int, lanes: int) -> float:
    return threads // lanes * lanes / threads
