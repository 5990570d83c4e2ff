"""Vectors of elements that a thread of a GPU reads at once."""

from __future__ import annotations

from templates.dtypes import BYTES_PER_ELEMENT

VECTOR_BYTES = 16


def longest_vector(dtype: str) -> int:
    return VECTOR_BYTES // BYTES_PER_ELEMENT[dtype]


def vector_lengths(dtype: str, *extents: int) -> list[int]:
    """Lengths of vectors, of which each of the extents is a whole number."""
    return [
        n
        for n in (1, 2, 4, 8)
        if n <= longest_vector(dtype) and all(extent % n == 0 for extent in extents)
    ]
