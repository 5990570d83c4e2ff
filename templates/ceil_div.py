def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up, exact for integers of any size."""
    return -(-a // b)


def excess(extent: int, piece: int) -> float:
    """How much is computed of what there is, in pieces."""
    return ceil_div(extent, piece) * piece / extent
