"""How many threads a block has for its lanes, which are vectors of channels."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 0.85
USUAL = 128


def are_filled(threads: int, lanes: int, choices: Sequence[int]) -> bool:
    """Whether most threads have a lane, or as many as with any choice."""
    return _share(threads, lanes) >= min(MOST, max(_share(each, lanes) for each in choices))


def usual_threads(lanes: int, choices: Sequence[int]) -> int:
    """128, or if these are not filled another choice."""
    return next(n for n in (USUAL, *choices) if are_filled(n, lanes, choices))


def _share(threads: int, lanes: int) -> float:
    return threads // lanes * lanes / threads
