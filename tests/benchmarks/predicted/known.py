"""The recorded trials from which rankers are trained."""

from __future__ import annotations

from functools import cache
from itertools import chain
from pathlib import Path

from templates.workload import Workload
from tests.benchmarks.predicted.finalists import is_judged
from tests.benchmarks.predicted.shapes import extents
from tests.benchmarks.predicted.train import Example, examples
from tests.benchmarks.predicted.trials import FOLDER, Recordings

SAMPLES = Path(__file__).parents[1] / "strategies/samples"
"""Recordings of parts of large spaces."""
GRADIENTS = Path(__file__).parent / "gradients"
"""Recordings of the templates that serve only gradients. They have configurations that fill the
device, neighbours of the fastest one and, on the same device, configurations that a ranker expected
to be fast for batches of 128 and for planes."""


def known(operator: str, kind: str) -> list[Example]:
    """Return the examples from which the package's rankers learn, without the shapes kept for
    judging."""
    sampled = [each for each in _of(SAMPLES, operator, kind) if not is_judged(each.shape.shape)]
    return [*_of(FOLDER, operator, kind), *sampled]


def known_gradients(operator: str, kind: str) -> list[Example]:
    """Return the examples from which the package's rankers of gradients learn."""
    return [*_of(GRADIENTS, operator, kind)]


def others(workload: Workload, kind: str) -> list[Example]:
    """Return the examples of shapes whose extents differ from a workload's."""
    found = (_of(folder, workload.operator, kind) for folder in (FOLDER, SAMPLES))
    return [each for each in chain(*found) if extents(each.shape.shape) != extents(workload)]


@cache
def _recorded(folder: Path) -> list[Recordings]:
    return [Recordings.load(path) for path in sorted(folder.glob("*.json.gz"))]


@cache
def _of(folder: Path, operator: str, kind: str) -> tuple[Example, ...]:
    """Return the examples of a folder. They are cached, because rankers that leave out different
    shapes share them."""
    return (*examples([r for r in _recorded(folder) if r.device["kind"] == kind], operator),)
