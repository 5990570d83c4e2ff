"""Division that rounds up, for extents that are cut into pieces."""


def ceil_div(a: int, b: int) -> int:
    """Return ``a / b`` rounded up, exact for integers of any size."""
    return -(-a // b)


def excess(extent: int, piece: int) -> float:
    """Return the extent rounded up to whole pieces, relative to the extent; at least 1.0."""
    return ceil_div(extent, piece) * piece / extent
