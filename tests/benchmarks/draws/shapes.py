"""Shapes of conv1d that nobody chose."""

from __future__ import annotations

from itertools import cycle, islice, product
from random import Random
from typing import get_args

from templates.conv1d.workload import MAX_INPUT, MAX_TAPS, MODES, Kind
from tests.benchmarks.limits.shapes import Shape

FEWEST_SAMPLES = 2**12
MOST_SAMPLES = {"cpu": 2**20, "cuda": MAX_INPUT}


def drawn(count: int, seed: int, target: str) -> list[Shape]:
    """Modes and kinds in turns, M and N log-uniform: from 4,096 samples to what ``MOST_SAMPLES``
    says of the target, and from one tap to the most that the operator takes, in mode valid no more
    than there are samples."""
    random = Random(seed)  # noqa: S311  # a seed repeats
    forms = islice(cycle(product(get_args(Kind), MODES)), count)
    return [_shape(random, kind, mode, MOST_SAMPLES[target]) for kind, mode in forms]


def _shape(random: Random, kind: str, mode: str, most: int) -> Shape:
    M = _between(random, FEWEST_SAMPLES, most)
    N = _between(random, 1, min(MAX_TAPS, M) if mode == "valid" else MAX_TAPS)
    fields = {"M": M, "N": N, "mode": mode, "kind": kind}
    return Shape(f"{kind} {mode} {M}×{N}", mode, "conv1d", fields)


def _between(random: Random, low: int, high: int) -> int:
    return round(low * (high / low) ** random.random())
