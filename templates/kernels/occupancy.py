"""Occupancy of a GPU by a grid of blocks, and of a CPU by tasks."""

from templates.ceil_div import ceil_div
from templates.limits import DeviceLimits
from templates.template import PARALLEL, Config, Features

MAX_RESIDENT = 2048  # threads that a unit holds at the same time


def resident_blocks(threads: int, registers: int, limits: DeviceLimits, *most: int) -> int:
    """Return how many blocks a unit runs at the same time, at least one.

    They are limited by the unit's threads, by ``registers`` for each of a block's ``threads``, and
    by each of ``most``.
    """
    room = limits.registers_per_unit // (registers * threads)
    return max(1, min(MAX_RESIDENT // threads, room, *most))


def registers_each(config: Config, limits: DeviceLimits) -> int:
    """Return how many registers a unit has for each thread of ``resident`` blocks."""
    return int(limits.registers_per_unit // (config["threads"] * config["resident"]))


def occupancy(blocks: int, threads: int, resident: int, limits: DeviceLimits) -> Features:
    """Return the features of a grid of ``blocks`` blocks of ``threads`` threads.

    A unit runs ``resident`` of its blocks at the same time.
    """
    return {
        "blocks": blocks,
        "blocks_per_unit": blocks / limits.units,
        "waves": ceil_div(blocks, resident * limits.units),
        "threads": threads,
        "resident_threads": min(resident, ceil_div(blocks, limits.units)) * threads,
    }


def bounded_occupancy(
    config: Config,
    blocks: int,
    threads: int,
    registers: int,
    limits: DeviceLimits,
    shared_bytes: int = 0,
) -> Features:
    """Return the features of a grid of blocks with a knob ``resident``.

    Each of a block's ``threads`` takes ``registers`` registers, and the block ``shared_bytes`` of
    shared memory.
    """
    room = limits.unit_shared_memory // max(1, shared_bytes)
    resident = resident_blocks(threads, registers, limits, room)
    return {
        **occupancy(blocks, threads, resident, limits),
        "shared_bytes": shared_bytes,
        "least_resident_threads": config["resident"] * threads,
        "registers": registers,
    }


def occupancy_by_tasks(tasks: int, config: Config, limits: DeviceLimits) -> Features:
    """Return the features of ``tasks`` tasks on all of a CPU's threads, or on one thread."""
    threads = min(tasks, limits.units) if config["threading"] == PARALLEL else 1
    return {"tasks": tasks, "threads": threads, "waves": ceil_div(tasks, threads)}
