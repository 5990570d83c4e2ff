"""Kinds of arithmetic in which templates sum, and what each means for the accuracy of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Arithmetic:
    """How a template sums.

    ``spreads_nonfinite`` says whether a NaN or an infinity of the input can change outputs whose
    sums do not contain it. ``note`` explains that, and the errors to expect, to users.
    """

    kind: Literal["direct", "fft", "tensor cores"]
    spreads_nonfinite: bool
    note: str


DIRECT = Arithmetic(
    "direct",
    False,
    "float32 multiply-adds of an output's own terms: a NaN or an infinity of the input reaches the "
    "outputs whose sums contain it, and no other output",
)
DIRECT_WITH_PADDING = Arithmetic(
    "direct",
    True,
    "float32 multiply-adds, some of them with the zeros around the tensors: a NaN or an infinity "
    "also reaches other outputs of its channel, but no other channel",
)
PRODUCTS = Arithmetic(
    "direct",
    True,
    "products in float32, or of 16-bit elements on tensor cores, summed in float32; some are with "
    "the zeros around the tensors: a NaN or an infinity also reaches other outputs of its channel, "
    "but no other channel",
)
FFT = Arithmetic(
    "fft",
    True,
    "each block of outputs comes from a transform of its inputs: a NaN or an infinity of the input "
    "makes the whole block NaN, and errors are about 1e-7 of the block's largest output, not of "
    "each output (next to a click of 1e6, quiet outputs are off by some 1e-2)",
)
FFT_IN_HALVES = Arithmetic(
    "fft",
    True,
    "signals and taps are transformed on tensor cores, in float16 scaled by the largest sample and "
    "summed in float32: a NaN or an infinity of the input spoils its whole signal, and errors are "
    "about 5e-4 of a signal's largest output, not of each output",
)
TENSOR_CORES = Arithmetic(
    "tensor cores",
    True,
    "a block of inputs is multiplied by a matrix that contains zeros; float32 is split into 16-bit "
    "halves, scaled by the block's largest input: a NaN or an infinity of the input spoils outputs "
    "of the whole block, and errors are relative to the block's largest input, not to each output",
)
