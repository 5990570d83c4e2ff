"""Shapes of conv1d that are drawn at random, so that no template was made for them."""

from __future__ import annotations

from itertools import cycle, islice, product
from random import Random
from typing import get_args

from templates.conv1d.workload import MAX_INPUT, MAX_TAPS, MODES, Kind
from tests.benchmarks.limits.shapes import Shape

FEWEST_SAMPLES = 2**12
MOST_SAMPLES = {"cpu": 2**20, "cuda": MAX_INPUT}


def drawn(count: int, seed: int, target: str) -> list[Shape]:
    """Return ``count`` shapes. Kinds and modes take turns; M and N are log-uniform.

    M is from 4,096 to the target's ``MOST_SAMPLES``. N is from 1 to the operator's limit and, in
    mode valid, to M. A larger ``count`` begins with the same shapes.
    """
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
