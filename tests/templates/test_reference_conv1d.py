"""The float64 reference of conv1d equals NumPy's convolve and correlate, and a slow loop."""

from typing import get_args
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.conv1d import sums_exact as room
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload, Mode
from tests.templates.shapes import small_conv1d, small_signals

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
    # a transform's rounding errors grow with these norms; a single sum may cancel to less
    assert np.abs(result - exact).max() <= 1e-15 * np.linalg.norm(x) * np.linalg.norm(w)


@given(
    small_conv1d(plain=True),
    st.integers(0, 2**32),
    st.sampled_from([0, room.DIRECT_LIMIT]),
)
def test_reference_equals_numpys_by_direct_sums_and_by_fft(
    workload: Conv1dWorkload, seed: int, limit: int
) -> None:
    x, w = drawn(workload, seed)
    with patch.object(room, "DIRECT_LIMIT", limit):
        assert_exact(workload, x, w)


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize(("M", "N"), [(1, 1), (2, 2), (7, 6), (8, 8), (9, 2), (64, 63)])
@pytest.mark.parametrize("limit", [0, room.DIRECT_LIMIT])
def test_reference_of_even_and_full_length_kernels_equals_numpys(
    M: int, N: int, mode: str, kind: str, limit: int
) -> None:
    workload = Conv1dWorkload.model_validate({"M": M, "N": N, "mode": mode, "kind": kind})
    x, w = drawn(workload)
    with patch.object(room, "DIRECT_LIMIT", limit):
        assert_exact(workload, x, w)


@pytest.mark.parametrize("kind", ["convolve", "correlate"])
def test_reference_of_a_long_kernel_is_computed_by_fft(kind: str) -> None:
    workload = Conv1dWorkload.model_validate({"M": 30011, "N": 2047, "mode": "same", "kind": kind})
    x, w = drawn(workload)
    assert_exact(workload, x, w)
    with patch.object(np, "convolve", side_effect=AssertionError):
        reference(workload, x, w)


@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same"])
@pytest.mark.parametrize(("M", "N"), [(1, 2), (1, 5), (4, 7), (7, 8), (8, 9), (63, 200)])
def test_reference_of_a_kernel_longer_than_the_input_equals_numpys(
    M: int, N: int, mode: str, kind: str
) -> None:
    workload = Conv1dWorkload.model_validate({"M": M, "N": N, "mode": mode, "kind": kind})
    assert_exact(workload, *drawn(workload))


@given(st.integers(1, 127).flatmap(small_signals), st.sampled_from([200, room.BLOCK]))
def test_reference_of_any_signals_equals_a_slow_loop(workload: Conv1dWorkload, block: int) -> None:
    """Results don't depend on the size of the blocks that are worked on at once."""
    workload = workload.model_copy(update={"bias": False, "residual": False, "activation": "none"})
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(argument.shape) for argument in workload.inputs)
    with patch.object(room, "BLOCK", block):
        result = reference(workload, x, w)
    assert result.shape == workload.output.shape
    for _ in range(20):
        place = tuple(int(rng.integers(extent)) for extent in result.shape)
        assert result[place] == pytest.approx(slow(workload, x, w, place), abs=1e-11)


def slow(workload: Conv1dWorkload, x: np.ndarray, w: np.ndarray, place: tuple[int, ...]) -> float:
    """Return one output, at the index ``place`` of the output array, by the definition."""
    b, f, i = workload.axes(place)
    channels = range(workload.C)
    if workload.groups != 1:
        channels = range(f // workload.multiplier, f // workload.multiplier + 1)
    total = 0.0
    for number, c in enumerate(channels):
        for t in range(workload.N):
            sample = i * workload.stride + t * workload.dilation - workload.pads[0]
            tap = workload.N - 1 - t if workload.kind == "convolve" else t
            if 0 <= sample < workload.M:
                weight = w[workload.weight_place(f, number if len(channels) > 1 else 0, tap)]
                total += x[workload.place(b, c, sample)] * weight
    return total


@pytest.mark.parametrize(
    ("first", "outputs", "taps"),
    [(0, 68, range(12536, 12570)), (0, 1, range(12569, 12570)), (60, 8, range(12536, 12570))],
)
def test_reference_leaves_out_taps_that_meet_only_padding(
    first: int, outputs: int, taps: range
) -> None:
    """A sum over all taps would take seconds for each case of such a job."""
    workload = Conv1dWorkload(B=2, M=68, N=12570, dilation=2, mode="causal", kind="correlate")
    assert room.taps_in_reach(workload, first, outputs) == taps


def test_reference_keeps_one_tap_if_all_meet_only_padding() -> None:
    workload = Conv1dWorkload(M=7, N=2, stride=65536, padding=(3, 4))
    assert room.taps_in_reach(workload, 0, 1) == range(1, 2)
