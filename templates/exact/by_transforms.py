"""Sums of products at each shift, by the convolution theorem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from templates.kernels.transform import smooth

ROUNDING = 1e-15
"""Of such a sum, in proportion to the norms of what is multiplied."""

Array = NDArray[np.float64]


def correlated(window: Array, kernels: Array, axes: int, over: tuple[int, ...] = ()) -> Array:
    """The sums of the products of windows and their kernels at each shift along the last ``axes``,
    added up over the axes ``over``. What wraps around lies at the end of each axis.

    What is no more than its rounding is zero: a stride or dilation may step over all of an impulse,
    and a right program has zeros there.
    """
    along = tuple(range(-axes, 0))
    shape = [smooth(extent) for extent in window.shape[-axes:]]
    product = np.fft.rfftn(window, shape, along) * np.fft.rfftn(kernels, shape, along).conj()
    found: Array = np.fft.irfftn(product.sum(over), shape, along)
    norms = [np.sqrt((each * each).sum(along, keepdims=True)) for each in (window, kernels)]
    found[np.abs(found) <= ROUNDING * (norms[0] * norms[1]).sum(over)] = 0
    return found
