"""Lengths for which a Fourier transform is fast."""

from templates.ceil_div import ceil_div


def fast_fft_length(length: int) -> int:
    """Return the least 2^a, 3·2^a or 5·2^a that is at least ``length``."""
    return min(f << max(0, (ceil_div(length, f) - 1).bit_length()) for f in (1, 3, 5))
