"""Roles: which tensor of a convolution is cut into segments (the samples), and which is applied to
each segment as a whole (the taps)."""

from __future__ import annotations

from dataclasses import dataclass

from templates.conv1d.workload import Conv1dWorkload


@dataclass(frozen=True)
class RowRange:
    """A range of ``extent`` elements of each row of a tensor, from element ``first`` on. Rows begin
    ``apart`` elements apart."""

    extent: int
    first: int
    apart: int


@dataclass(frozen=True)
class Roles:
    """The tensors that have the roles of taps and of samples. Each of ``kernels`` rows of ``taps``
    is applied to ``signals`` rows of ``samples``.

    Output i is the sum over t of sample i + t - ``left`` times tap t, in the order in which the
    taps meet the samples. If ``swapped``, the input has the role of the taps, and the weight that
    of the samples. Convolution is commutative, so the shorter of the two can be the taps. In a
    correlation, swapped samples are read backwards.
    """

    swapped: bool
    taps: RowRange
    samples: RowRange
    left: int
    kernels: int
    signals: int


def roles(workload: Conv1dWorkload) -> Roles:
    """Return the roles for a workload of channels apart, at stride 1 without dilation.

    A kernel that is longer than a single signal swaps roles with it. Taps that meet no sample are
    left out, because they would contribute only rounding errors.
    """
    M, N, left = workload.M, workload.N, workload.left
    # the taps that meet samples, counted in the order of the samples
    low, high = max(0, left - workload.length + 1), min(N, left + M)
    first = N - high if workload.kind == "convolve" else low
    taps, samples, left = RowRange(high - low, first, N), RowRange(M, 0, M), left - low
    if taps.extent <= M or workload.B > 1:
        return Roles(False, taps, samples, left, workload.out_channels, workload.B)
    # Let u be the taps in the order in which they meet the samples. Then the sum over t of
    # x[i + t - left] u[t] equals the sum over s of u[N-1 - (i + s - (M - N + left))] x[M-1 - s].
    left += M - taps.extent
    return Roles(True, samples, taps, left, workload.C, workload.multiplier)
