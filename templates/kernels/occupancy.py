"""How a grid fills a GPU."""

from typing import Any

from templates.ceil_div import ceil_div
from templates.limits import DeviceLimits

MAX_RESIDENT = 2048  # threads of a unit


def resident_blocks(threads: int, registers: int, limits: DeviceLimits, *most: int) -> int:
    """Blocks that a unit runs at the same time, one at least: as many as it has room for the
    threads and for so many registers of each, and as ``most`` allow."""
    room = limits.registers_per_unit // (registers * threads)
    return max(1, min(MAX_RESIDENT // threads, room, *most))


def registers_each(config: dict[str, Any], limits: DeviceLimits) -> int:
    """How many registers a unit has for each of the ``threads`` of ``resident`` blocks."""
    return int(limits.registers_per_unit // (config["threads"] * config["resident"]))


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
