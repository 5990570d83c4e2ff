"""The test cases of a workload: their inputs, exact references, and limits of the dtypes."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import in_numpy
from templates.exact import in_threads
from templates.workload import Workload
from tuner.measure import cases, check

CONV1D = Conv1dWorkload(M=50, N=7)
DEPTHWISE = DepthwiseConv2dWorkload(B=2, C=3, H=9, W=11, K=5, stride=2)
HALF = Conv1dWorkload(M=50, N=7, dtype="float16")
WORKLOADS = pytest.mark.parametrize("workload", [CONV1D, DEPTHWISE, HALF], ids=lambda w: w.key)


def written(workload: Workload, folder: Path, seed: int = 0) -> list[cases.Case]:
    cases.write(workload, folder, seed)
    return cases.read(workload, folder)


@WORKLOADS
def test_each_case_has_the_workloads_shapes_and_its_reference(
    workload: Workload, tmp_path: Path
) -> None:
    found = written(workload, tmp_path)
    assert [case.name for case in found] == ["normal", "positive", "impulse", "decaying", "offset"]
    for case in found:
        for array, argument in zip(case.inputs, workload.inputs, strict=True):
            assert (array.shape, array.dtype) == (argument.shape, argument.dtype)
        exact = "float64" if workload.dtype == "float32" else "float32"
        assert (case.references["output"].shape, case.references["output"].dtype) == (
            workload.output.shape,
            exact,
        )
        assert np.isfinite(case.references["output"]).all()


@pytest.mark.parametrize("workload", [CONV1D, HALF], ids=lambda w: w.dtype)
def test_reference_is_computed_from_the_stored_inputs(workload: Workload, tmp_path: Path) -> None:
    for case in written(workload, tmp_path):
        exact = np.convolve(*(array.astype(np.float64) for array in case.inputs))
        # The references of short floats are stored in float32, so they are rounded once.
        rtol = 1e-12 if workload.dtype == "float32" else 2.0**-24
        np.testing.assert_allclose(case.references["output"], exact, rtol=rtol)


@WORKLOADS
def test_normal_and_positive_inputs_have_no_zeros(workload: Workload, tmp_path: Path) -> None:
    normal, positive, *_ = written(workload, tmp_path)
    x = normal.inputs[0]
    assert (x < 0).any() and (x > 0).any() and (x != 0).all()
    assert all((array > 0).all() for array in (*positive.inputs, positive.references["output"]))


def test_impulses_lie_at_both_ends_of_a_signal(tmp_path: Path) -> None:
    x = written(CONV1D, tmp_path)[2].inputs[0]
    assert np.flatnonzero(x).tolist() == [0, 49]
    assert x[0] != x[49]


@pytest.mark.parametrize("seed", [916, *range(8)])  # 916 draws 0.032 and 0.017 at the ends
def test_impulse_case_has_no_tiny_taps_at_the_kernels_ends(seed: int) -> None:
    """In mode valid the only nonzero outputs are the products of an impulse and an end of the
    kernel. If both were tiny, the rounding errors of transforms, which are relative to the whole
    kernel, would be too large."""
    workload = Conv1dWorkload(M=9000, N=8191, mode="valid", kind="correlate")
    rng = np.random.default_rng(seed)
    for name in ("normal", "positive", "impulse"):
        _, w = cases.draw(workload, name, rng)
    assert min(abs(w[0]), abs(w[-1])) >= 1
    assert np.abs(w).min() < 0.01  # the other taps are unchanged


def test_impulses_lie_in_each_corner_of_every_plane(tmp_path: Path) -> None:
    impulse = written(DEPTHWISE, tmp_path)[2]
    for plane in impulse.inputs[0].reshape(-1, 9, 11):
        assert list(zip(*np.nonzero(plane), strict=True)) == list(product((0, 8), (0, 10)))


@pytest.mark.parametrize(
    ("dtype", "large"), [("float32", 1e20), ("bfloat16", 1e20), ("float16", 16.0)]
)
def test_decaying_and_offset_cases_have_one_large_and_one_small_tensor(
    dtype: str, large: float, tmp_path: Path
) -> None:
    workload = Conv1dWorkload.model_validate({"M": 3000, "N": 500, "mode": "valid", "dtype": dtype})
    *_, decaying, offset = written(workload, tmp_path)
    for case, big, small in ((decaying, 0, 1), (offset, 1, 0)):
        sizes = [np.abs(array.astype(np.float64)).max() for array in case.inputs]
        assert large < sizes[big] < 10 * large
        assert 0.4 < sizes[small] * large < np.sqrt(workload.N)
        assert np.sqrt(workload.N) < case.scales["output"] < 6 * np.sqrt(workload.N)


def test_a_decaying_filter_begins_with_a_spike(tmp_path: Path) -> None:
    decaying = written(Conv1dWorkload(M=3000, N=500), tmp_path)[3]
    w = np.abs(decaying.inputs[1])
    assert w[0] > 3 * w[1:].max()
    assert w[400:].mean() < 0.01 * w[1:100].mean()


def test_offset_is_far_larger_than_the_variation_on_it(tmp_path: Path) -> None:
    given = written(Conv1dWorkload(M=3000, N=500), tmp_path)[4].inputs
    x, w = (array.astype(np.float64) for array in given)
    assert x.mean() > 500 * x.std()
    assert w.sum() > np.linalg.norm(w)  # so the outputs are not near zero


def halves(array: cases.Array, scale: float) -> cases.Array:
    """Return the array scaled, rounded to float16, and scaled back, in float64."""
    with np.errstate(over="ignore"):
        return (array * np.float32(scale)).astype(np.float16).astype(np.float64) / scale


@pytest.mark.parametrize("scaled", [True, False])
def test_float16_arithmetic_passes_only_if_inputs_are_scaled(scaled: bool, tmp_path: Path) -> None:
    """Arithmetic in float16 keeps an accuracy of 1e-3 only if its inputs are scaled to its range:
    without scaling, two of the five cases fail."""
    workload = Conv1dWorkload(M=3000, N=500, max_error=1e-3)

    def error(case: cases.Case) -> float:
        scales = [1 / np.abs(array).max() if scaled else 1.0 for array in case.inputs]
        x, w = (halves(*each) for each in zip(case.inputs, scales, strict=True))
        with np.errstate(invalid="ignore"):
            return check.relative_error(np.convolve(x, w), case.references["output"])

    found = [error(case) for case in written(workload, tmp_path)]
    assert [each <= workload.max_error for each in found] == [True] * 3 + [scaled] * 2


@pytest.mark.parametrize(
    "workload",
    [
        Conv1dWorkload(M=1, N=1),
        Conv1dWorkload(M=5, N=5, mode="valid"),
        DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=5),
        DepthwiseConv2dWorkload(B=1, C=2, H=1, W=7, K=1, stride=2),
        DepthwiseConv2dWorkload(B=1, C=1, H=6, W=6, K=1, stride=2),
    ],
    ids=lambda w: w.key,
)
def test_no_case_has_a_reference_near_zero(workload: Workload, tmp_path: Path) -> None:
    for case in written(workload, tmp_path):
        assert np.abs(case.references["output"]).max() > (
            0.001 if case.name == "decaying" else 0.01
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("taps", [16384, 30000, 2**16])
def test_no_reference_overflows_a_16_bit_dtype(taps: int, dtype: str, tmp_path: Path) -> None:
    workload = Conv1dWorkload.model_validate({"M": taps, "N": taps, "mode": "same", "dtype": dtype})
    for case in written(workload, tmp_path):
        assert {array.dtype.name for array in case.inputs} == {dtype}
        exact = case.references["output"].astype(in_numpy(dtype))
        assert np.isfinite(exact.astype(np.float64)).all()
        assert check.relative_error(exact, case.references["output"]) < workload.max_error


def test_seed_determines_the_inputs(tmp_path: Path) -> None:
    drawn = []
    for place, seed in enumerate((7, 7, 8)):
        (tmp_path / str(place)).mkdir()
        drawn.append(written(CONV1D, tmp_path / str(place), seed)[0])
    assert all(map(np.array_equal, drawn[0].inputs, drawn[1].inputs))
    assert not any(map(np.array_equal, drawn[0].inputs, drawn[2].inputs))


@pytest.mark.parametrize("taps", [2, 3, 61])
def test_no_seed_draws_terms_that_cancel_in_a_single_output(taps: int, tmp_path: Path) -> None:
    """The error is relative to the largest output. If there is one output and its terms cancel,
    every configuration of the job would be wrong."""
    workload = Conv1dWorkload(M=taps, N=taps, mode="valid", kind="correlate")
    for seed in range(100):
        for case in written(workload, tmp_path, seed):
            x, w = case.inputs
            typical = np.linalg.norm(x.astype(np.float64) * w)
            assert abs(case.references["output"][0]) > 0.4 * typical, (case.name, seed)


def test_inputs_are_drawn_again_if_float16_cannot_hold_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Conv1dWorkload(M=1, N=1, dtype="float16")
    drawn = cases.draw
    draws = iter([1e-3, 1e-3, 1.0])

    def small_at_first(*arguments: Any) -> tuple[cases.Array, ...]:
        factor = np.float16(next(draws, 1.0))
        return tuple(array * factor for array in drawn(*arguments))

    monkeypatch.setattr(cases, "draw", small_at_first)
    for case in written(workload, tmp_path):
        assert np.abs(case.references["output"]).max() >= np.finfo(np.float16).smallest_normal
    assert next(draws, None) is None


@WORKLOADS
def test_size_of_the_case_files_is_predicted(workload: Workload, tmp_path: Path) -> None:
    cases.write(workload, tmp_path, 0)
    files = list(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) == cases.size(workload) + 128 * len(files)


@pytest.mark.parametrize("name", cases.CASES)
def test_large_draw_does_not_depend_on_the_number_of_processors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large tensor is drawn in pieces by several threads. The result must not depend on their
    number, and no two pieces may be equal."""
    monkeypatch.setattr(cases, "PIECE", 100)
    work = Conv1dWorkload(M=1001, N=301, dtype="bfloat16")
    drawn = []
    for processors in (1, 4):
        monkeypatch.setattr(in_threads, "_processors", partial(int, processors))
        drawn.append(cases.draw(work, name, np.random.default_rng(5)))
    for one, other in zip(*drawn, strict=True):
        assert np.array_equal(one.view(np.uint16), other.view(np.uint16))
    x = drawn[0][0]
    assert name == "impulse" or len({part.tobytes() for part in np.split(x[:1000], 10)}) == 10
