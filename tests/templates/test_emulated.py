"""The emulation's barriers: they open, or a deadlock fails at once instead of hanging."""

import numpy as np
import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch
from tests.templates.emulated import run

WORKLOAD = Conv1dWorkload(M=64, N=1)
COPY = """
static void copy(const void* x, const void* w, void* y, word* shared) {{
  const int thread = threadIdx.x;
  {before}
  ((float*)shared)[thread] = ((const float*)x)[thread];
  {between}
  ((float*)y)[thread] = ((float*)shared)[63 - thread];
}}
"""


def copied(between: str, before: str = "") -> list[float]:
    given = [np.arange(64, dtype="f4"), np.ones(1, "f4")]
    source = COPY.format(before=before, between=between)
    return list(run(WORKLOAD, source, [Launch("copy", 1, 64, 64)], given, 0))


@pytest.mark.parametrize(
    "between",
    [
        "__syncthreads();",
        "barrier_meet(3, 64); barrier_meet(3, 64);",
        "if (thread < 32) barrier_arrive(1, 64), barrier_meet(2, 64);"
        "else barrier_meet(1, 64), barrier_arrive(2, 64);",
    ],
)
def test_what_was_written_before_a_barrier_is_read_after_it(between: str) -> None:
    assert copied(between) == list(range(63, -1, -1))


@pytest.mark.parametrize(
    ("between", "before"),
    [
        ("barrier_meet(1, 96);", ""),
        ("if (thread < 32) barrier_meet(1, 64); else barrier_meet(2, 64);", ""),
        ("__syncthreads();", "if (thread == 5) return;"),
    ],
)
def test_a_deadlock_fails(between: str, before: str) -> None:
    with pytest.raises(AssertionError, match="no other thread will meet"):
        copied(between, before)
