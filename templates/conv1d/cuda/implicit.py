"""CudaImplicit: the search space of tensor-core products for dense channels and for banks."""

from __future__ import annotations

from collections.abc import Mapping

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.implicit_layout import (
    blocks,
    chunk_steps,
    chunks,
    coprime_steps,
    filters,
    filters_of_lanes,
    halves_of,
    is_filled,
    positions,
    products_of,
    register_limit,
    rows_prefetched,
    shared_words,
    staged_rows,
    thread_registers,
    threads,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import arithmetics, truncation
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

STREAMED = (16, 32, 48)  # taps at a time
WARPS_OF_GROUPS = (8, 12, 16, 20)
COLUMNS = (12, 16, 24, 32)  # tiles of positions of a warpgroup, beside the usual ones


class CudaImplicit(Template[Conv1dWorkload]):
    """A product of weights and samples (``implicit.cu``).

    The weights are a matrix of filters by channels and taps, the samples one of channels and taps
    by positions.

    A warp sums ``filter_tiles`` of 16 filters by ``position_tiles`` of 8 positions. A step of the
    product is ``along`` 16 channels or taps, padded by zeros. With two ``fragments``, its operands
    are loaded during the step before. A block stages ``channels`` channels and ``taps`` taps at a
    time; with two ``stages``, it does so during the products of the previous ones. If it stages all
    at once, it keeps the weights for ``tiles`` tiles of positions; along channels, the weights come
    in ``weight_parts`` parts. A lane stores ``neighbours`` outputs at once. ``arithmetic`` names
    the halves into which float32 is split.

    For one channel, ``streamed`` taps of the weights may be streamed at a time through
    ``stream_stages`` stages (0: weights are staged). Warpgroups then multiply them by a window that
    stays, and lanes sum the remaining filters if there are few.

    Registers are limited so that ``resident`` blocks fit on a unit.
    """

    name = "implicit"
    kind = "cuda"
    version = 9
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is dense or has several filters of one channel, which share
        operands, on compute capability 7.5 or later."""
        return (
            super().applies(workload, limits)
            and limits.capability >= 75
            and bool(arithmetics(workload, workload.taps, limits))
            and (workload.is_dense or (workload.C == 1 and workload.out_channels > 1))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        N, C, F = workload.N, workload.C, workload.out_channels
        along = _along(workload)
        space = ConfigSpace(self.name, self.version)
        space.knob("arithmetic", arithmetics(workload, workload.taps, limits))
        warps, own = [1, 2, 3, 4], [1, 2] if F <= 32 else [2, 3, 4]
        across = [4, 5, 6, 7, 8] if workload.length > 64 else [2, 4, 8]
        if streams := _can_stream(workload, limits):
            space.knob("streamed", [0, *STREAMED])
            space.knob("stream_stages", [2, 3], when={"streamed": list(STREAMED)})
            warps, own = [*warps, *WARPS_OF_GROUPS], sorted({1, *own})
            across = [*across, *(n for n in COLUMNS if 4 * n < workload.length)]
        space.knob("filter_warps", warps)
        space.knob("filter_tiles", own)
        space.knob("position_warps", [1, 2, 4, 5, 8])
        space.knob("position_tiles", across)
        space.knob("neighbours", _neighbours(workload))
        space.knob("fragments", [1, 2])
        space.knob("stages", [1, 2])
        space.knob("resident", [1, 2, 3])
        space.knob("along", along)
        space.knob("channels", sorted({each for way in along for each in _channels(way, C)}))
        space.knob("taps", sorted({each for way in along for each in _taps(way, N)}))
        space.knob("tiles", [1, 2, 4, 8, 15])
        space.knob("weight_parts", [1, 2, 4])
        if streams:
            space.constraint(
                "if weights are streamed, filter_warps is a multiple of 4, neighbours is 2, and "
                "filter_tiles, position_warps, fragments and stages are 1; if they are staged, no "
                "knob has a value that is only for streamed weights",
                lambda c: _uses_warpgroups(c) if c["streamed"] else _uses_warps(c, F),
                ["neighbours", "fragments", "stages"],
            )
            space.constraint(
                "if weights are streamed, a block has all taps and one tile",
                lambda c: c["streamed"] == 0 or (c["taps"], c["tiles"]) == (N, 1),
                ["taps", "tiles"],
            )
        space.constraint(
            "padding adds at most a quarter of the filters, or as few as possible",
            lambda c: is_filled(workload, c),
            ["neighbours"],
        )
        space.constraint(
            "the positions fill more than half of a block, or it has only 16",
            lambda c: positions(c) < max(2 * workload.length, 17),
            ["position_warps", "position_tiles"],
        )
        space.constraint(
            "half of neighbours divides position_tiles",
            lambda c: c["position_tiles"] % (c["neighbours"] // 2) == 0,
            ["neighbours"],
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: thread_registers(workload, c) <= register_limit(c, limits.registers_per_unit),
            ["fragments", "stages", "resident"],
        )
        space.constraint(
            _choices("channels", {way: _channels(way, C) for way in along}),
            lambda c: c["channels"] in _channels(c["along"], C),
            ["along", "channels"],
        )
        space.constraint(
            _choices("taps", {way: _taps(way, N) for way in along}),
            lambda c: c["taps"] in _taps(c["along"], N),
            ["along", "taps"],
        )
        space.constraint(
            "two stages only if a block stages several chunks, several tiles only if it stages all "
            "at once",
            lambda c: c["stages"] == 1 if chunks(workload, c) == 1 else c["tiles"] == 1,
            ["channels", "taps", "tiles"],
        )
        space.constraint(
            "several weight_parts only along channels, if a block stages all at once, each of "
            "whole tiles of filters",
            lambda c: (
                c["weight_parts"] == 1
                or (
                    c["along"] == "channels"
                    and chunks(workload, c) == 1
                    and filters(c) // 16 % c["weight_parts"] == 0
                )
            ),
            ["weight_parts"],
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory for the resident blocks",
            lambda c: 4 * c["resident"] * shared_words(workload, c) <= limits.shared_memory,
            ["weight_parts"],
        )
        space.constraint(
            "a block's tiles cover less than twice a row, or there is one",
            lambda c: c["tiles"] == 1 or c["tiles"] * positions(c) < 2 * workload.length,
            ["tiles"],
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        F, way = workload.out_channels, _along(workload)[0]
        config: Config = {
            "template": self.name,
            "arithmetic": arithmetics(workload, workload.taps, limits)[0],
            "filter_warps": 2 if F > 32 else 1,
            "filter_tiles": 2 if F > 32 else 1,
            "position_warps": 2 if workload.length > 64 else 1,
            "position_tiles": 4 if workload.length > 64 else 2,
            "fragments": 1,
            "stages": 1,
            "resident": 1,
            "along": way,
            "channels": _channels(way, workload.C)[0],
            "taps": workload.N,
            "tiles": 1,
            "weight_parts": 1,
            "neighbours": 2,
        }
        config |= {"streamed": 0} if _can_stream(workload, limits) else {}
        if not is_filled(workload, config):
            config["filter_warps"] = 1
        for taps in reversed(_taps(way, workload.N)):
            if 2 * 4 * shared_words(workload, config) > limits.shared_memory:
                config["taps"] = taps
        return config

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        block = threads(config)
        shared = 4 * shared_words(workload, config)
        registers = thread_registers(workload, config) + 8 * rows_prefetched(workload, config)
        resident = resident_blocks(block, registers, limits, limits.shared_memory // shared)
        count, parts = blocks(workload, config), chunks(workload, config)
        steps, rows = chunk_steps(config) * parts, staged_rows(workload, config)
        sums = config["filter_tiles"] * config["position_tiles"]
        return {
            **occupancy(count, block, resident, limits),
            "shared_bytes": shared,
            "registers": registers,
            "products": sums * steps * config["tiles"] * products_of(config),
            "loads_per_product": (config["filter_tiles"] + config["position_tiles"] / 2) / sums,
            "chunks": parts,
            "packed": count * filters(config) * steps * 16,
            "summed_by_lanes": filters_of_lanes(workload, config) * workload.N * positions(config),
            "staged_bytes": 16 * halves_of(config) * count * config["tiles"] * parts * rows,
            "padded_share": count
            * config["tiles"]
            * positions(config)
            * filters(config)
            * steps
            * 16
            / (workload.B * workload.length * workload.out_channels * workload.taps),
        }


def _can_stream(workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
    """Return whether weights may be streamed: float32 of one channel, for warpgroups. Their
    instruction finds the second row of a step by its distance from the first row, which must be at
    least 0."""
    near, far = coprime_steps(workload, 8 * workload.dilation)
    even = [2 * step * far % near for step in range(ceil_div(workload.N, 16))]
    return (
        limits.arch == "sm_90"
        and (workload.C, workload.dtype) == (1, "float32")
        and STREAMED[0] < workload.N
        and all((first + far) % near >= first for first in even)
        and truncation("fp16x3", workload.N) <= workload.error_of_sums(workload.N)
    )


def _uses_warpgroups(config: Config) -> bool:
    others = ("filter_tiles", "position_warps", "neighbours", "stages", "fragments")
    return [config[each] for each in others] == [1, 1, 2, 1, 1] and config["filter_warps"] % 4 == 0


def _uses_warps(config: Config, F: int) -> bool:
    of_groups = config["filter_warps"] in WARPS_OF_GROUPS or config["position_tiles"] in COLUMNS
    return not of_groups and (config["filter_tiles"] > 1 or F <= 32)


def _along(workload: Conv1dWorkload) -> list[str]:
    """Return the values of ``along``, the better one first. The other one is included only if it
    multiplies less than twice as much."""
    if workload.C == 1:
        return ["taps"]
    products = {
        "channels": ceil_div(workload.C, 16) * workload.N,
        "taps": workload.C * ceil_div(workload.N, 16),
    }
    least = min(products.values())
    ways = sorted(products, key=lambda way: products[way])
    return [way for way in ways if products[way] < 2 * least]


def _channels(way: str, C: int) -> list[int]:
    """Return how many channels a block may stage at a time."""
    if way == "taps":
        return sorted({c for c in (1, 4) if c <= C} | ({C} if C <= 32 else set()))
    whole = ceil_div(C, 16) * 16
    return sorted({c for c in (16, 32, 64, whole) if c <= whole})


def _taps(way: str, N: int) -> list[int]:
    """Return how many taps a block may stage at a time."""
    if way == "taps":
        parts = {ceil_div(N, 16 * each) * 16 for each in (2, 3, 5, 9)} | {16}
    else:
        parts = {1, 4, 16, 64, 256}
    return sorted({each for each in parts if each < N} | {N})


def _choices(knob: str, values: Mapping[str, list[int]]) -> str:
    """Return the sentence that says which values a knob may have with each value of ``along``."""
    return "; ".join(f"along {way}, {knob} is one of {each}" for way, each in values.items())


def _neighbours(workload: Conv1dWorkload) -> list[int]:
    """Return how many neighbouring outputs a lane may store at once, at most 16 bytes."""
    if workload.layout == "NWC":
        return [2]
    return [2, 4] if workload.dtype == "float32" else [2, 4, 8]
