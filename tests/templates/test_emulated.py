"""The emulation's barriers: they open, or a deadlock fails at once instead of hanging.

If a barrier is missing, no warp can rely on the slowness of another warp.
"""

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
def test_emulated_barrier_makes_earlier_writes_visible(between: str) -> None:
    assert copied(between) == list(range(63, -1, -1))


@pytest.mark.parametrize(
    ("between", "before"),
    [
        ("barrier_meet(1, 96);", ""),
        ("if (thread < 32) barrier_meet(1, 64); else barrier_meet(2, 64);", ""),
        ("__syncthreads();", "if (thread == 5) return;"),
    ],
)
def test_emulated_deadlock_fails_instead_of_hanging(between: str, before: str) -> None:
    with pytest.raises(AssertionError, match="no other thread will meet"):
        copied(between, before)


TWICE = """
static void twice(const void* x, const void* w, void* y, word* shared) {{
  const int thread = threadIdx.x;
  float sum = 0;
  for (int time = 0; time < 2; ++time) {{
    ((float*)shared)[thread] = ((const float*)x)[thread];
    __syncthreads();
    if (thread / 32 == {slow})
      for (int n = 0; n < 9; ++n) __syncwarp();
    sum += ((float*)shared)[63 - thread];
    {between}
    if (thread / 32 == {slow}) shared[thread] = 0;
    __syncthreads();
  }}
  ((float*)y)[thread] = sum;
}}
"""


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize(("between", "right"), [("__syncthreads();", True), ("", False)])
def test_emulated_slow_warp_may_overtake_another_without_a_barrier(
    between: str, right: bool, slow: int
) -> None:
    given = [np.arange(64, dtype="f4"), np.ones(1, "f4")]
    source = TWICE.format(slow=slow, between=between)
    found = run(WORKLOAD, source, [Launch("twice", 1, 64, 64)], given, 0)
    assert (list(found) == list(range(126, -1, -2))) is right
