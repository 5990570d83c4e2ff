"""Work, shared memory and registers of a block of ``CudaImplicit``, as ``schedules/implicit.cu``
and ``implicit_layout.cu`` lay them out."""

from __future__ import annotations

from math import gcd

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.halves import ARITHMETICS, truncation
from templates.template import Config

CHAIN = 16  # steps that tensor cores sum at a time, if the sum of all would be too inexact
OTHER_REGISTERS = 52  # registers for addresses and so on
MOST_PREFETCHED = 4
MOST_REGISTERS = 208  # registers of a thread, including the rows that it loads ahead
STREAM_GAP = 8  # words between filters, which put them into different banks
STREAM_OTHER_REGISTERS = 24  # registers for addresses and so on, if weights are streamed
MOST_FILTERS_OF_LANES = 4  # filters that lanes sum: a lane finishes one of them


def threads(config: Config) -> int:
    return int(32 * config["filter_warps"] * config["position_warps"])


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    reach = workload.length + slack(workload, config)
    patches = ceil_div(reach, positions(config) * config["tiles"])
    return workload.B * patches * filter_blocks(workload, config)


def positions(config: Config) -> int:
    """Return how many positions a block computes at a time."""
    return int(8 * config["position_warps"] * config["position_tiles"])


def slack(workload: Conv1dWorkload, config: Config) -> int:
    """Return by how many positions warps may begin earlier, so that they store whole runs."""
    whole = workload.layout == "NWC" or workload.length % config["neighbours"] == 0
    return 0 if whole or config.get("streamed") else int(config["neighbours"]) - 1


def filter_blocks(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of blocks for all filters except those that lanes sum. A warp's filters are
    spaced so that all their runs have the same alignment."""
    run, own = config["neighbours"], 16 * config["filter_tiles"]
    spacing = run // gcd(workload.length, run) if slack(workload, config) else 1
    packed = workload.out_channels - filters_of_lanes(workload, config)
    return ceil_div(spacing * ceil_div(packed, spacing * own), config["filter_warps"])


def filters_of_lanes(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many filters lanes sum: those beyond the full blocks of warpgroups, if there are
    few."""
    F = workload.out_channels
    beyond = F % filters(config) if config.get("streamed") and filters(config) < F else 0
    return beyond if beyond <= MOST_FILTERS_OF_LANES else 0


def is_filled(workload: Conv1dWorkload, config: Config) -> bool:
    """Return whether blocks pad the filters by at most a quarter, or as little as possible."""
    F = workload.out_channels
    least = {"filter_warps": 1, "filter_tiles": 1 if F <= 32 else 2, "neighbours": 2}
    summed = filter_blocks(workload, config) * filters(config)
    return summed <= max(5 * F // 4, filter_blocks(workload, least) * filters(least))


def filters(config: Config) -> int:
    """Return the number of filters of a block."""
    return int(16 * config["filter_warps"] * config["filter_tiles"])


def chunks(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of channels and taps that a block stages one after the other."""
    return ceil_div(workload.C, config["channels"]) * ceil_div(workload.N, config["taps"])


def shared_words(workload: Conv1dWorkload, config: Config) -> int:
    """Return the 32-bit words of a block's shared memory, as ``implicit.cu`` lays them out."""
    pitch = ceil_div(config["channels"] * config["taps"], 8) * 8
    while pitch % 32 != 16:
        pitch += 8
    halves = halves_of(config)
    window = 4 * halves * staged_rows(workload, config)
    if config.get("streamed"):
        stage = filters(config) * (config["streamed"] + STREAM_GAP)
        return int(window + config["stream_stages"] * stage)
    size = BYTES_PER_ELEMENT[workload.dtype]
    raw = filters(config) // config["weight_parts"] * pitch * size // 4
    if config["along"] == "taps":
        raw = 0  # weights need no packing
    beside = window + raw if chunks(workload, config) > 1 else max(window, raw)
    return int(config["stages"] * (halves * filters(config) * chunk_steps(config) * 8 + beside))


def rows_prefetched(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many rows a thread loads ahead while it multiplies those before them."""
    if config["stages"] == 1 and config["tiles"] == 1:
        return 0
    rows = ceil_div(staged_rows(workload, config), threads(config))
    limit = min(MOST_REGISTERS, register_limit(config, 2**16))
    budget = limit - thread_registers(workload, config)
    return max(0, min(MOST_PREFETCHED, rows, budget // 8))


def halves_of(config: Config) -> int:
    """Return the number of halves of an element: 2 for a float32 that is split, else 1."""
    return 2 if products_of(config) == 3 else 1


def products_of(config: Config) -> int:
    return ARITHMETICS[config["arithmetic"]][1]


def chain(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many steps tensor cores sum at a time; 0: all.

    They sum all steps if the error of that is at most half of ``max_error``. The other half is for
    devices before 8.0, which take two instructions for a product.
    """
    error = 2 * truncation(config["arithmetic"], workload.taps)
    is_exact = error <= workload.error_of_sums(workload.taps)
    return 0 if is_exact or config.get("streamed") else CHAIN


def chunk_steps(config: Config) -> int:
    """Return the number of steps of 16 channels or taps in a chunk."""
    if config["along"] == "taps":
        return int(config["channels"] * ceil_div(config["taps"], 16))
    return int(config["channels"] // 16 * config["taps"])


def staged_rows(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of rows of 16 bytes in a chunk's window of the signal."""
    reach = workload.dilation
    columns = positions(config) + slack(workload, config)
    groups, distances = config["channels"] // 8, config["taps"]
    if config["along"] == "taps":
        groups, distances = config["channels"], 2 * ceil_div(distances, 16)
        reach *= 8
    near, far = coprime_steps(workload, reach)
    shared = near * (columns + (distances - 1) * far // near)
    return int(groups * min(distances * columns, shared))


def coprime_steps(workload: Conv1dWorkload, reach: int) -> tuple[int, int]:
    """Return stride and distance in samples, both divided by their greatest common divisor."""
    step = gcd(workload.stride, reach)
    return workload.stride // step, reach // step


def register_limit(config: Config, registers: int) -> int:
    """Return the most registers of a thread. A unit has four parts, and each part runs whole
    warps."""
    warps = ceil_div(threads(config) // 32 * config["resident"], 4)
    return min(255, registers // 4 // (32 * warps) // 8 * 8)


def thread_registers(workload: Conv1dWorkload, config: Config) -> int:
    """Estimate a thread's registers: sums, fragments and addresses, without rows loaded ahead."""
    own, columns = config["filter_tiles"], config["position_tiles"]
    if config.get("streamed"):
        return int(4 * columns + 4 * halves_of(config) + STREAM_OTHER_REGISTERS)
    fragments = 4 * own + 4 * ceil_div(columns, 2) * (config["fragments"] - 1) + 8
    if config["fragments"] == 2:
        fragments += 4 * own
    fragments += (halves_of(config) - 1) * 4 * (own + ceil_div(columns, 2))
    sums = 4 * own * columns * (2 if chain(workload, config) else 1)
    return int(sums + fragments + OTHER_REGISTERS + 24 * (config["stages"] - 1))
