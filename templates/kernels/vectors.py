"""Vectors of elements that a thread of a GPU reads at once."""

from __future__ import annotations

from templates.dtypes import BYTES_PER_ELEMENT

VECTOR_BYTES = 16


def longest_vector(dtype: str) -> int:
    """Return how many elements fill the longest vector, of 16 bytes."""
    return VECTOR_BYTES // BYTES_PER_ELEMENT[dtype]


def vector_lengths(dtype: str, *extents: int) -> list[int]:
    """Return the lengths of vectors that divide each of the extents."""
    return [
        n
        for n in (1, 2, 4, 8)
        if n <= longest_vector(dtype) and all(extent % n == 0 for extent in extents)
    ]
