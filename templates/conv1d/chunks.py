"""Lengths of the chunks into which the taps of a long kernel are divided."""

from __future__ import annotations

from templates.ceil_div import ceil_div

LONGEST = (2048, 512)
"""A float32 sum of 2048 positive terms has an error of about 2.5e-6. A shorter chunk costs one more
addition, but is more exact and needs less shared memory."""


def chunk_lengths(taps: int, multiples: tuple[int, ...]) -> list[int]:
    """Return chunk lengths worth trying, in taps, longest first.

    For each limit in LONGEST, the taps are divided into as few equal chunks as it allows, and the
    length is rounded up to each of the ``multiples``.
    """
    lengths = set()
    for longest in LONGEST:
        even = ceil_div(taps, ceil_div(taps, longest))
        lengths |= {ceil_div(even, multiple) * multiple for multiple in multiples}
    return sorted(lengths, reverse=True)
