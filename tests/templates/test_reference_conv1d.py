from typing import get_args
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.conv1d import reference as room
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload, Mode
from tests.templates.shapes import small_conv1d

NUMPYS = {"convolve": np.convolve, "correlate": np.correlate}


def drawn(workload: Conv1dWorkload, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(workload.M, dtype=np.float32)
    return x, rng.standard_normal(workload.N, dtype=np.float32)


def numpys(workload: Conv1dWorkload, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    function = NUMPYS[workload.kind]
    x, w = x.astype(np.float64), w.astype(np.float64)
    if workload.mode == "causal":
        return function(x, w, "full")[: workload.M]
    return function(x, w, workload.mode)


def assert_exact(workload: Conv1dWorkload, x: np.ndarray, w: np.ndarray) -> None:
    result, exact = reference(workload, x, w), numpys(workload, x, w)
    assert result.dtype == np.float64
    assert result.shape == exact.shape
    # what a transform's rounding is in proportion to; a single sum may cancel to less
    assert np.abs(result - exact).max() <= 1e-15 * np.linalg.norm(x) * np.linalg.norm(w)


@given(
    small_conv1d().filter(lambda workload: workload.is_plain),
    st.integers(0, 2**32),
    st.sampled_from([0, room.DIRECT_LIMIT]),
)
def test_is_numpys_on_both_sides_of_the_limit(
    workload: Conv1dWorkload, seed: int, limit: int
) -> None:
    x, w = drawn(workload, seed)
    with patch.object(room, "DIRECT_LIMIT", limit):
        assert_exact(workload, x, w)


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize(("M", "N"), [(1, 1), (2, 2), (7, 6), (8, 8), (9, 2), (64, 63)])
@pytest.mark.parametrize("limit", [0, room.DIRECT_LIMIT])
def test_even_kernels_and_those_as_long_as_the_input(
    M: int, N: int, mode: str, kind: str, limit: int
) -> None:
    workload = Conv1dWorkload.model_validate({"M": M, "N": N, "mode": mode, "kind": kind})
    x, w = drawn(workload)
    with patch.object(room, "DIRECT_LIMIT", limit):
        assert_exact(workload, x, w)


@pytest.mark.parametrize("kind", ["convolve", "correlate"])
def test_a_long_kernel_takes_the_transform(kind: str) -> None:
    workload = Conv1dWorkload.model_validate({"M": 30011, "N": 2047, "mode": "same", "kind": kind})
    x, w = drawn(workload)
    assert_exact(workload, x, w)
    with patch.object(np, "convolve", side_effect=AssertionError):
        reference(workload, x, w)
