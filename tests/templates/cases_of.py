"""Cases of workloads on which several programs are checked."""

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import templates
from templates.workload import Workload
from tuner.measure import cases
from tuner.measure.cases import Case

MOST = 32
"""Workloads whose cases are kept."""


def cases_of(workload: Workload) -> list[Case]:
    """As a job draws them. Their references are worked out once, and shared: nobody writes them."""
    return _drawn(workload.key)


@lru_cache(MOST)
def _drawn(key: str) -> list[Case]:
    workload = templates.parse_key(key)
    with TemporaryDirectory() as folder:  # what is mapped stays when its file is gone
        cases.write(workload, Path(folder), seed=1)
        return cases.read(workload, Path(folder))
