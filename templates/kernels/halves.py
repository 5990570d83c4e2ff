"""float32 on tensor cores, split into halves of 16 bits, and the accuracy of their products."""

from __future__ import annotations

from pathlib import Path

from templates.ceil_div import ceil_div
from templates.epilogue import WithEpilogue
from templates.limits import DeviceLimits

HALVES = Path(__file__).with_suffix(".cu")
"""The beginning of sources that multiply halves. It needs TYPE, IS_BF16 and PRODUCTS."""

ARITHMETICS = {"fp16x3": ("f16", 3), "bf16x3": ("bf16", 3), "fp16": ("f16", 1), "bf16": ("bf16", 1)}
"""PTX's name of the halves' type, and how many products of high and low halves are summed."""

OF_DTYPE = {"float16": "fp16", "bfloat16": "bf16"}
"""The arithmetic of 16-bit elements, which are multiplied as they are."""

BITS = {"f16": 11, "bf16": 8}
"""Bits of the mantissa, by type."""
SUMS = 1e-6
"""The relative accuracy of sums in float32."""
STEP = 16
"""Terms that an instruction of tensor cores sums."""
STEP_ERROR = 1.5e-7
"""The relative error that the three products of a step add, measured on an H200."""


def halves(arithmetic: str) -> dict[str, object]:
    """Return the values that fill in sources of products."""
    type_, products = ARITHMETICS[arithmetic]
    return {"TYPE": type_, "IS_BF16": type_ == "bf16", "PRODUCTS": products}


def has_tensor_cores_for(dtype: str, limits: DeviceLimits) -> bool:
    """Return whether the device's tensor cores multiply elements of this 16-bit dtype."""
    least = {"float16": 75, "bfloat16": 80}.get(dtype)
    return least is not None and limits.capability >= least


def arithmetics(workload: WithEpilogue, taps: int, limits: DeviceLimits) -> list[str]:
    """Return the arithmetics that keep max_error, whatever the input.

    ``taps`` is how many of an output's taps meet the input. The error of a single product counts: a
    kernel may have one large tap, whose error no other product averages out. Products of float16 or
    bfloat16 are exact. bf16 needs compute capability 8.0, so the list may be empty.
    """
    bf16 = limits.capability >= 80
    if workload.dtype == "bfloat16":
        return ["bf16"] if bf16 else []
    if workload.dtype == "float16":
        return ["fp16"]
    error = workload.error_of_sums(taps)
    return [
        name
        for name, (type_, products) in ARITHMETICS.items()
        if error >= max(_of_a_product(type_, products), SUMS) and (bf16 or type_ == "f16")
    ]


def truncation(arithmetic: str, terms: int) -> float:
    """Return the relative error of a sum of this many terms, if tensor cores alone add them up.

    Tensor cores truncate, so the error grows with every step. With a single product the error
    counts as 0, because the rounding of the operands is larger.
    """
    return STEP_ERROR * ceil_div(terms, STEP) if ARITHMETICS[arithmetic][1] == 3 else 0.0


def _of_a_product(type_: str, products: int) -> float:
    """Return the largest relative error of a product.

    Both factors are rounded to the bits of their halves. If three products are summed, the product
    of the two low halves is left out. It may be as large as both roundings.
    """
    bits = BITS[type_]
    return float(2.0 ** (1 - bits) if products == 1 else 2.0 ** (1 - 2 * bits))
