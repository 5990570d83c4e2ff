"""CudaImplicitWarpgroup: the search space of warpgroup products for dense channels on CUDA."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

OTHER_REGISTERS = 36  # registers for addresses and so on
MOST_TAPS = 31  # a lane has all taps of a pair of channels
MOST_WEIGHTS = 160  # registers
MOST_THREADS = 640
REGISTERS = 2**16  # of a unit
MOST_REGISTERS = 248
LEAST_OTHER_REGISTERS = 32  # registers without which the matrix instruction does not compile
MOST_PREFETCHED = 12  # pairs of rows that a staging thread fetches at once
REGISTERS_PER_PAIR = 16  # registers for each such pair, and for the one that follows it
OTHER_STAGING_REGISTERS = 40  # other registers of a staging thread


class CudaImplicitWarpgroup(Template[Conv1dWorkload]):
    """A product of weights (filters by channels and taps) and samples, by warpgroups.

    It uses the matrix instructions of whole warpgroups (``schedules/implicit_warpgroup.cu``). A
    warpgroup holds 64 filters by ``columns`` positions, or 32 filters by as many pairs of
    neighbouring positions. A block has ``filter_groups`` by ``position_groups`` such warpgroups,
    and ``staging_groups`` others that write the next ``channels`` channels to one of ``stages``
    buffers. It computes ``tiles`` tiles of positions. If it stages all channels at once, the
    weights stay in registers and the groups of positions take turns. Registers are limited so that
    ``resident`` blocks fit on a unit.
    """

    name = "implicit_warpgroup"
    kind = "cuda"
    version = 4
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is dense, has 16 bits, at least 8 channels and 16 filters,
        and at most 31 taps, on compute capability 9.0.

        No other GPU has these instructions. They take 16 channels and 64 filters. Below the limits,
        most of an instruction would be empty.
        """
        return (
            limits.kind == "cuda"
            and limits.arch == "sm_90"
            and workload.is_dense
            and workload.dtype != "float32"
            and workload.C >= 8
            and workload.out_channels >= 16
            and workload.N <= MOST_TAPS
            and len(self.space(workload, limits)) > 0
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        length, whole = workload.length, ceil_div(workload.C, 16) * 16
        space = ConfigSpace(self.name, self.version)
        space.knob("filter_groups", [1, 2, 3, 4])
        space.knob("position_groups", [1, 2, 3, 4])
        space.knob("columns", list(range(32, 193, 16)))
        space.knob("channels", sorted({c for c in (16, 32, 64, whole) if c <= whole}))
        space.knob("tiles", [1, 2, 3, 4, 6, 8, 12, 16])
        space.knob("stages", [1, 2, 3, 4])
        space.knob("staging_groups", [1, 2])
        space.knob("resident", [1, 2, 3])
        space.constraint(
            "the filters fill more than half of a block, or it has one group of them",
            lambda c: c["filter_groups"] == 1 or _filters(workload, c) < 2 * workload.out_channels,
            reads=("filter_groups",),
        )
        space.constraint(
            f"at most {MOST_THREADS} threads a block",
            lambda c: threads(c) <= MOST_THREADS,
            reads=("filter_groups", "position_groups", "staging_groups"),
        )
        space.constraint(
            "the positions fill more than half of a block, or it is the smallest",
            lambda c: (
                _tile(workload, c) < 2 * length or (c["position_groups"], c["columns"]) == (1, 32)
            ),
            reads=("position_groups", "columns", "channels"),
        )
        space.constraint(
            f"at most {MOST_WEIGHTS} registers for weights",
            lambda c: _weights(workload, c) <= MOST_WEIGHTS,
            reads=("channels",),
        )
        space.constraint(
            "a block has no more tiles than a row and, if it stages all channels at once, one for "
            "each position group",
            lambda c: (
                (c["tiles"] == 1 or (c["tiles"] - 1) * _tile(workload, c) < length)
                and (chunks(workload, c) > 1 or c["position_groups"] <= c["tiles"])
            ),
            reads=("position_groups", "columns", "channels", "tiles"),
        )
        space.constraint(
            "no more stages than parts that a block stages, at least two for several parts and, if "
            "it stages all channels at once, one for each position group",
            lambda c: (
                min(2, _parts(workload, c)) <= c["stages"] <= _parts(workload, c)
                and (chunks(workload, c) > 1 or c["position_groups"] <= c["stages"])
            ),
            reads=("position_groups", "channels", "tiles", "stages"),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: (
                registers(workload, c).multiplying <= MOST_REGISTERS
                and registers(workload, c).launched >= c["columns"] // 2 + LEAST_OTHER_REGISTERS
                and row_pairs_prefetched(workload, c) >= 1
            ),
        )
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory for the resident blocks",
            lambda c: 4 * c["resident"] * shared_words(workload, c) <= limits.shared_memory,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        space = self.space(workload, limits)
        config = {
            "template": self.name,
            "filter_groups": 1,
            "position_groups": 1,
            "columns": 32,
            "channels": 16,
            "tiles": 1,
            "stages": min(2, ceil_div(workload.C, 16)),
            "staging_groups": 1,
            "resident": 1,
        }
        for columns in (64, 128):
            larger = {**config, "columns": columns}
            config = larger if larger in space else config
        return config

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        tile, filters = _tile(workload, config), _filters(workload, config)
        parts = chunks(workload, config)
        steps = config["channels"] // 16 * _taps(workload) * parts
        count, room = blocks(workload, config), config["resident"] * limits.units
        return {
            **occupancy(count, threads(config), config["resident"], limits),
            "tail": count / room / ceil_div(count, room),
            "shared_bytes": 4 * shared_words(workload, config),
            "registers": registers(workload, config).multiplying,
            "held": row_pairs_prefetched(workload, config),
            "products": config["columns"] * steps * config["tiles"],
            "chunks": parts,
            "staged_bytes": count
            * (16 * config["tiles"] * parts * _rows(workload, config) + 32 * filters * steps),
            "padded_share": count
            * config["tiles"]
            * tile
            * filters
            * steps
            * 16
            / (workload.B * workload.length * workload.out_channels * workload.taps),
        }


@dataclass(frozen=True)
class Registers:
    """Registers of a thread at the launch, of a thread that stages, and of a thread that
    multiplies. The last two differ if staging threads give some of their registers to the
    others."""

    launched: int
    staging: int
    multiplying: int


def registers(workload: Conv1dWorkload, config: Config) -> Registers:
    """Return the registers of a block's threads. Those for multiplying are an estimate."""
    groups, stagers = _groups(config), config["staging_groups"]
    launched = min(MOST_REGISTERS, REGISTERS // (threads(config) * config["resident"]) // 8 * 8)
    needed = ceil_div(_weights(workload, config) + config["columns"] // 2 + OTHER_REGISTERS, 8) * 8
    if needed <= launched:
        return Registers(launched, launched, launched)
    left = launched * (groups + stagers) - needed * groups
    return Registers(launched, left // stagers // 8 * 8, needed)


def row_pairs_prefetched(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many pairs of rows a staging thread fetches at once: as many as its registers
    hold. It is less than 1 if they do not hold any pair."""
    pairs = ceil_div(_rows(workload, config) // 2, 128 * config["staging_groups"])
    return min(
        MOST_PREFETCHED,
        pairs,
        (registers(workload, config).staging - OTHER_STAGING_REGISTERS) // REGISTERS_PER_PAIR,
    )


def threads(config: Config) -> int:
    return 128 * (_groups(config) + int(config["staging_groups"]))


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    patches = ceil_div(workload.length, _tile(workload, config) * config["tiles"])
    return workload.B * patches * ceil_div(workload.out_channels, _filters(workload, config))


def chunks(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of the channels that a block stages one after the other."""
    return ceil_div(workload.C, config["channels"])


def shared_words(workload: Conv1dWorkload, config: Config) -> int:
    """Return the 32-bit words of a block's shared memory, as ``implicit_warpgroup.cu`` lays them
    out."""
    stages = config["stages"]
    raw = _filters(workload, config) * (config["channels"] * workload.N + 8) // 2
    raws = stages if chunks(workload, config) > 1 else 1
    return int(stages * (4 * _rows(workload, config) + 4) + raws * raw)


def _parts(workload: Conv1dWorkload, config: Config) -> int:
    return int(chunks(workload, config) * config["tiles"])


def _groups(config: Config) -> int:
    """Return the number of warpgroups that multiply."""
    return int(config["filter_groups"] * config["position_groups"])


def neighbours(workload: Conv1dWorkload) -> int:
    """Return how many neighbouring positions share the 64 rows of an instruction, 1 or 2.

    It is 2, with 32 filters for each position, if half of the rows would otherwise be empty and two
    neighbouring positions share all taps but one.
    """
    shared = workload.stride == workload.dilation == 1 < workload.N and workload.layout == "NCW"
    return 2 if shared and 1 <= workload.out_channels % 64 <= 32 else 1


def _filters(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of filters of a block."""
    return int(64 // neighbours(workload) * config["filter_groups"])


def _taps(workload: Conv1dWorkload) -> int:
    """Return how many taps the neighbours of a column have together."""
    return workload.N + neighbours(workload) - 1


def _columns(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many columns a block computes at a time: those of one group if groups take turns,
    otherwise those of all groups."""
    groups = config["position_groups"] if chunks(workload, config) > 1 else 1
    return int(config["columns"] * groups)


def _tile(workload: Conv1dWorkload, config: Config) -> int:
    """Return how many positions a block computes at a time."""
    return _columns(workload, config) * neighbours(workload)


def _rows(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of rows of 16 bytes in a chunk's window of the signal."""
    step, dilation = workload.stride * neighbours(workload), workload.dilation
    columns, taps = _columns(workload, config), _taps(workload)
    near, far = step // gcd(step, dilation), dilation // gcd(step, dilation)
    shared = columns + (taps - 1) * far // near
    apart = taps * columns <= near * shared
    paired = workload.layout == "NCW" and not apart and workload.stride == 1 and workload.M % 2 == 0
    shift = workload.left % 2 if paired else 0
    rows = taps * columns if apart else near * ceil_div(shared + shift, 2) * 2
    return int(config["channels"] // 8 * rows)


def _weights(workload: Conv1dWorkload, config: Config) -> int:
    """Return the registers of a thread that hold weights."""
    return int(config["channels"] // 16 * _taps(workload) * 4)
