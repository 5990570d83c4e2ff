"""float32 on tensor cores, split into halves: the types of halves, and how many products."""

from __future__ import annotations

from pathlib import Path

from templates.epilogue import WithEpilogue
from templates.limits import DeviceLimits

HALVES = Path(__file__).with_suffix(".cu")
"""The beginning of their sources. It needs TYPE, IS_BF16 and PRODUCTS."""

BF16_TAPS = 100
"""The error of three products of bfloat16 is up to 1.1e-5 of a product; a sum of so many averages
it out to about half (measured on normal input: at most 6.5e-6 from 127 taps on, 1.0e-5 with
49). An input with few samples that are not zero averages nothing."""

ARITHMETICS = {"fp16x3": ("f16", 3), "bf16x3": ("bf16", 3), "fp16": ("f16", 1), "bf16": ("bf16", 1)}
"""PTX's name of the type, and how many products of high and low halves are summed."""


def capability(limits: DeviceLimits) -> int:
    """75 for sm_75."""
    return int(limits.arch.removeprefix("sm_").rstrip("af"))


def arithmetics(workload: WithEpilogue, taps: int, limits: DeviceLimits) -> list[str]:
    """The arithmetics that keep max_error if ``taps`` of an output's taps meet the input. A product
    of float16 or bfloat16 is exact. bf16 needs compute capability 8.0: there may be none."""
    bf16 = capability(limits) >= 80
    if workload.dtype == "bfloat16":
        return ["bf16"] if bf16 else []
    if workload.dtype == "float16":
        return ["fp16"]
    error = workload.error_of_sums(taps)
    admitted = ["fp16x3"] if error >= 1e-6 else []
    if bf16 and error >= (1e-5 if taps >= BF16_TAPS else 2e-5):
        admitted.append("bf16x3")
    if error >= 2e-4:
        admitted.append("fp16")
    if bf16 and error >= 2e-3:
        admitted.append("bf16")
    return admitted
