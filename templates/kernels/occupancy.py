"""How a grid fills a GPU."""

from templates.ceil_div import ceil_div
from templates.limits import DeviceLimits


def occupancy(blocks: int, threads: int, resident: int, limits: DeviceLimits) -> dict[str, float]:
    """Features of a grid of ``blocks`` by ``threads``, of which a unit runs ``resident`` blocks at
    the same time."""
    return {
        "blocks": blocks,
        "blocks_per_unit": blocks / limits.units,
        "waves": ceil_div(blocks, resident * limits.units),
        "threads": threads,
        "resident_threads": min(resident, ceil_div(blocks, limits.units)) * threads,
    }
