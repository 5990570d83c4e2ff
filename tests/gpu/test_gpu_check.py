"""Errors that are computed on the GPU equal NumPy's on the host to the last bit."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.dtypes import in_numpy
from templates.workload import Workload
from tuner.measure import cases
from tuner.measure.check import relative_error
from tuner.measure.device_error import BLOCKS, THREADS, LargestDifference
from tuner.measure.kernel import Tensors, device

pytestmark = pytest.mark.gpu

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
ALL_AT_ONCE = BLOCKS * THREADS
SIZES = [1, 2, 31, 33, THREADS + 1, 100_003, ALL_AT_ONCE, ALL_AT_ONCE + 1, 5 * ALL_AT_ONCE - 1]


@pytest.fixture(scope="module")
def largest() -> LargestDifference:
    return LargestDifference(device("cuda"))


def placed(array: Any) -> Any:
    import tvm

    return tvm.runtime.tensor(array, device("cuda"))


def random(size: int, dtype: str) -> tuple[Any, Any]:
    """Return an output and a reference that is near it, each in the dtype in which it is kept."""
    exact = np.random.default_rng(size).standard_normal(size)
    kept = cases.reference_dtype(Conv1dWorkload(M=1, N=1, dtype=dtype))
    return (exact + 1e-3).astype(in_numpy(dtype)), exact.astype(kept)


def apart(y: Any, exact: Any) -> Any:
    return np.abs(np.subtract(y, exact, dtype=np.float64)).max()


@DTYPES
@pytest.mark.parametrize("size", SIZES)
def test_largest_difference_on_the_gpu_equals_numpys(
    size: int, dtype: str, largest: LargestDifference
) -> None:
    """The largest difference equals NumPy's, for sizes around those of warps, blocks and grid."""
    y, exact = random(size, dtype)
    assert largest(placed(y), placed(exact)) == apart(y, exact)


@DTYPES
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wrong", [3.0, -3.0, np.inf, -np.inf, np.nan])
def test_one_wrong_element_is_found_wherever_it_is(
    size: int, dtype: str, wrong: float, largest: LargestDifference
) -> None:
    y, exact = random(size, dtype)
    reference = placed(exact)
    for place in {0, size // 2, size - 1}:
        changed = y.copy()
        changed[place] += wrong
        found = largest(placed(changed), reference)
        np.testing.assert_equal(found, apart(changed, exact))
    np.testing.assert_equal(largest(placed(y), reference), apart(y, exact))


@DTYPES
def test_nan_is_not_hidden_by_infinity(dtype: str, largest: LargestDifference) -> None:
    y, exact = random(ALL_AT_ONCE + 7, dtype)
    reference = placed(exact)
    for places in ((0, -1), (-1, 0), (5, 6), (6, 5)):
        changed = y.copy()
        changed[places[0]], changed[places[1]] = np.nan, np.inf
        assert np.isnan(largest(placed(changed), reference))
        changed[places[0]] = -np.nan
        assert np.isnan(largest(placed(changed), reference))


@DTYPES
def test_subnormal_numbers_are_not_taken_for_zeros(dtype: str, largest: LargestDifference) -> None:
    bits, least = {
        "float32": ("uint32", 2.0**-149),
        "float16": ("uint16", 2.0**-24),
        "bfloat16": ("uint16", 2.0**-133),
    }[dtype]
    zero, y = placed(np.zeros(3)), np.array([0, 1, 0], bits).view(in_numpy(dtype))
    assert largest(placed(y), zero) == least
    assert largest(placed(-y), zero) == least
    assert largest(placed(0 * y), zero) == 0


@DTYPES
def test_wrong_element_beyond_2_31_bytes_is_found(dtype: str, largest: LargestDifference) -> None:
    size = 2**28 + 1
    y, exact = np.zeros(size, in_numpy(dtype)), placed(np.zeros(size))
    for place in (0, -1):
        y[place] = 2.0
        assert largest(placed(y), exact) == 2.0
        y[place] = 0.0


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(
    "workload",
    [
        Conv1dWorkload(M=1, N=1),
        Conv1dWorkload(M=100_003, N=61, dtype="float16"),
        DepthwiseConv2dWorkload(B=2, C=5, H=31, W=61, K=3, stride=2),
    ],
    ids=lambda workload: workload.key,
)
def test_errors_are_the_same_with_and_without_room_to_keep_the_cases(
    workload: Workload, short: bool, tmp_path: Path
) -> None:
    """Errors are the same whether the GPU has room to keep the cases or, if memory is short, they
    are copied each time."""
    cases.write(workload, tmp_path, seed=7)
    tensors = Tensors(workload, "cuda")
    assert tensors._room > 0
    if short:
        tensors._room = 0
    for case in cases.read(workload, tmp_path) * 2:
        tensors.fill(case)
        for tensor, array in zip(tensors.inputs, case.inputs, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)
        assert np.isnan(tensors.errors(case)["output"])
        y = case.references["output"].astype(in_numpy(workload.dtype))
        y.reshape(-1)[-1] += 0.5
        tensors.outputs[0].copyfrom(y)
        assert tensors.errors(case)["output"] == relative_error(y, case.references["output"])
    arrays = len(cases.CASES) * (len(workload.inputs) + 1)
    assert len(tensors._kept) == (0 if short else arrays)


@pytest.mark.parametrize("short", [False, True])
def test_error_in_any_repetition_of_a_few_signals_is_found(short: bool, tmp_path: Path) -> None:
    """The few different signals of a large workload's cases are repeated on the GPU, and an error
    is found in any repetition."""
    workload = DepthwiseConv2dWorkload.model_validate(
        {"B": 13, "C": 96, "H": 91, "W": 93, "K": 3, "layout": "NHWC", "dtype": "bfloat16"}
    )
    cases.write(workload, tmp_path, seed=7)
    tensors = Tensors(workload, "cuda")
    if short:
        tensors._room = 0
    known = cases.read(workload, tmp_path)
    assert [len(case.inputs[0]) for case in known] == [13, *[cases.SIGNALS] * 4]
    for case in known:
        tensors.fill(case)
        for tensor, array, argument in zip(
            tensors.inputs, case.inputs, workload.inputs, strict=True
        ):
            np.testing.assert_array_equal(tensor.numpy(), np.resize(array, argument.shape))
        assert np.isnan(tensors.errors(case)["output"])
        exact = case.references["output"]
        y = np.resize(exact, workload.output.shape).astype(in_numpy(workload.dtype))
        for place in (0, cases.SIGNALS - 1, cases.SIGNALS, -1):
            wrong = y.copy()
            wrong[place, 5, 7, 3] += 3 * case.scales["output"]
            tensors.outputs[0].copyfrom(wrong)
            found = tensors.errors(case)["output"]
            assert found == relative_error(wrong, exact)
            assert found == pytest.approx(3, abs=1)


@DTYPES
def test_check_of_a_large_output_takes_milliseconds(dtype: str, largest: LargestDifference) -> None:
    """The output has 38 million elements; copying it to the host and comparing it with NumPy would
    take a tenth of a second."""
    y, exact = (placed(np.zeros(38_000_000, in_numpy(kind))) for kind in (dtype, "float64"))
    largest(y, exact)
    start = time.perf_counter()
    for _ in range(10):
        largest(y, exact)
    seconds = (time.perf_counter() - start) / 10
    print(f"{dtype}: {seconds * 1e3:.2f} ms")
    assert seconds < 20e-3
