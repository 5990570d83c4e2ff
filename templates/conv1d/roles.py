"""Which tensor of a convolution is cut into segments, and which meets each of them as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from templates.conv1d.workload import Conv1dWorkload


@dataclass(frozen=True)
class Rows:
    """So many numbers of each row, from ``first`` on; rows are ``apart`` numbers apart."""

    extent: int
    first: int
    apart: int


@dataclass(frozen=True)
class Roles:
    """``kernels`` rows of ``taps`` meet ``signals`` rows of ``samples`` each, which begin ``left``
    samples behind output 0's first one. A kernel that is longer than the only signal that it meets
    is ``swapped`` with it: a convolution is the same the other way round."""

    swapped: bool
    taps: Rows
    samples: Rows
    left: int
    kernels: int
    signals: int


def roles(workload: Conv1dWorkload) -> Roles:
    """Of a workload of channels apart, at stride 1 without dilation. Taps that meet no sample are
    left out: they would leave their rounding errors only."""
    M, N, left = workload.M, workload.N, workload.left
    low, high = max(0, left - workload.length + 1), min(N, left + M)  # in the order of samples
    first = N - high if workload.kind == "convolve" else low
    taps, samples, left = Rows(high - low, first, N), Rows(M, 0, M), left - low
    if taps.extent <= M or workload.B > 1:
        return Roles(False, taps, samples, left, workload.out_channels, workload.B)
    # with u for the taps in the order in which they meet the samples, the sum over t of
    # x[i + t - left] u[t] is that over s of u[N-1 - (i + s - (M - N + left))] x[M-1 - s]
    left += M - taps.extent
    return Roles(True, samples, taps, left, workload.C, workload.multiplier)
