"""Float32 products computed in halves: their error, and the ``max_error`` that admits them."""

import ml_dtypes
import numpy as np
import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import ARITHMETICS, arithmetics
from tests.templates.devices import H200, T4

TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
LEAST = {"bf16x3": 2.0**-15, "fp16": 2.0**-10, "bf16": 2.0**-7}


def admitted(error: float) -> list[str]:
    return arithmetics(Conv1dWorkload(M=4096, N=2047, max_error=error), 2047, H200)


def error_of_products(name: str) -> float:
    """Return the largest relative error of a million random products in an arithmetic."""
    type_, products = ARITHMETICS[name]
    factors = np.random.default_rng(5).uniform(1, 2, (2, 10**6)).astype(np.float32)
    high = factors.astype(TYPES[type_]).astype(np.float32)
    low = (factors - high).astype(TYPES[type_]).astype(np.float64)
    found = high[0].astype(np.float64) * high[1]
    if products == 3:
        found += high[0] * low[1] + low[0] * high[1]
    exact = factors[0].astype(np.float64) * factors[1]
    return float(np.abs(found / exact - 1).max())


@pytest.mark.parametrize("name", LEAST)
def test_arithmetic_is_admitted_if_max_error_covers_its_worst_product(name: str) -> None:
    assert LEAST[name] / 2 < error_of_products(name) < LEAST[name]
    assert name in admitted(LEAST[name])
    assert name not in admitted(0.99 * LEAST[name])


def test_three_float16_products_are_as_exact_as_float32_sums() -> None:
    assert error_of_products("fp16x3") < 5e-7
    assert admitted(1e-6) == ["fp16x3"]


def test_older_tensor_cores_have_no_bfloat16() -> None:
    workload = Conv1dWorkload(M=4096, N=2047, max_error=1e-2)
    assert set(arithmetics(workload, 2047, H200)) == set(ARITHMETICS)
    assert arithmetics(workload, 2047, T4) == ["fp16x3", "fp16"]
