"""Correlation in float64 by the convolution theorem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from templates.exact.fft_length import fast_fft_length

ROUNDING = 1e-15
"""Rounding error of a sum, relative to the product of the norms of its window and its kernel."""

Array = NDArray[np.float64]


def correlate_by_fft(window: Array, kernels: Array, axes: int, over: tuple[int, ...] = ()) -> Array:
    """Return the correlation of windows with their kernels along the last ``axes`` axes.

    Element s of the result is the sum over t of window[s + t] * kernel[t], added up over the axes
    ``over`` as well. Shifts at which the kernel reaches beyond the window wrap around; they are at
    the end of each axis.

    Results no larger than the rounding error become zero: if a stride or dilation steps over all of
    an impulse, a right program has zeros there.
    """
    along = tuple(range(-axes, 0))
    shape = [fast_fft_length(extent) for extent in window.shape[-axes:]]
    product = np.fft.rfftn(window, shape, along) * np.fft.rfftn(kernels, shape, along).conj()
    found: Array = np.fft.irfftn(product.sum(over), shape, along)
    norms = [np.sqrt((each * each).sum(along, keepdims=True)) for each in (window, kernels)]
    found[np.abs(found) <= ROUNDING * (norms[0] * norms[1]).sum(over)] = 0
    return found
