def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up, exact for integers of any size."""
    return -(-a // b)
