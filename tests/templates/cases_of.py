"""Cases of a workload, kept in memory for all programs that a test run checks on them."""

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import templates
from templates.workload import Workload
from tuner.measure import cases
from tuner.measure.cases import Case

MOST = 32
"""How many workloads' cases are kept: those that were used last."""


def cases_of(workload: Workload) -> list[Case]:
    """Return a workload's cases, drawn as a job draws them, with seed 1.

    Their arrays are shared between callers, which must not write to them.
    """
    return _drawn(workload.key)


@lru_cache(MOST)
def _drawn(key: str) -> list[Case]:
    workload = templates.parse_key(key)
    with TemporaryDirectory() as folder:  # the arrays stay mapped after their files are removed
        cases.write(workload, Path(folder), seed=1)
        return cases.read(workload, Path(folder))
