"""CudaWarpgroup: the search space of Toeplitz products on tensor cores, by warpgroups, on CUDA."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import arithmetics
from templates.kernels.occupancy import resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

ROWS = 64
RESERVED_REGISTERS = 40
MAX_THREADS = 512


class CudaWarpgroup(Template[Conv1dWorkload]):
    """The output as a product of a Toeplitz matrix of 64 rows and a Hankel view of the input.

    The matrix instructions of whole warpgroups read both operands from shared memory
    (``schedules/warpgroup.cu``). A warpgroup holds 64 by ``columns`` outputs. A block has
    ``groups`` times ``tap_groups`` warpgroups: ``groups`` are side by side, and ``tap_groups``
    divide the taps among them. ``arithmetic`` names the halves into which float32 is split. Tensor
    cores truncate their sums, so only ``steps_per_sum`` steps of 16 taps are summed there before
    the sum is added to a total in float32.
    """

    name = "warpgroup"
    kind = "cuda"
    version = 3
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload ``is_rows``, an arithmetic keeps ``max_error``, and the GPU
        has compute capability 9.0, the only one with these instructions."""
        return (
            limits.kind == "cuda"
            and limits.arch == "sm_90"
            and workload.is_rows
            and bool(arithmetics(workload, workload.N, limits))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("columns", [16, 32, 48, 64, 96, 128, 160, 192])
        space.knob("groups", [1, 2, 3, 4])
        space.knob("tap_groups", [1, 2, 3, 4])
        space.knob("taps_per_chunk", _chunks(workload))
        space.knob("steps_per_sum", [8, 16, 32, 64])
        space.knob("arithmetic", arithmetics(workload, workload.N, limits))
        space.constraint(
            f"at most {MAX_THREADS} threads a block",
            lambda c: _threads(c) <= MAX_THREADS,
            reads=("groups", "tap_groups"),
        )
        space.constraint(
            "the registers of a block fit",
            lambda c: _registers(c) * _threads(c) <= limits.registers_per_unit,
            reads=("columns", "groups", "tap_groups"),
        )
        space.constraint(
            f"at most {limits.shared_memory_opt_in} bytes of shared memory",
            lambda c: 4 * shared_words(workload, c) <= limits.shared_memory_opt_in,
        )
        space.constraint(
            "a block covers less than twice the output, or is the smallest",
            lambda c: _tile(c) < 2 * workload.length or (c["columns"], c["groups"]) == (16, 1),
        )
        space.constraint(
            "every tap group has a step; steps_per_sum is less than twice all steps, or 8",
            lambda c: (
                c["tap_groups"] <= _steps(c)
                and (c["steps_per_sum"] < 2 * _steps(c) or c["steps_per_sum"] == 8)
            ),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "columns": 16,
            "groups": 1,
            "tap_groups": 1,
            "taps_per_chunk": _chunks(workload)[-1],
            "steps_per_sum": 8,
            "arithmetic": arithmetics(workload, workload.N, limits)[0],
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, shared = _threads(config), 4 * shared_words(workload, config)
        tile, steps = _tile(config), _steps(config)
        blocks = workload.rows * ceil_div(workload.length, tile)
        resident = resident_blocks(
            threads, _registers(config), limits, limits.shared_memory_opt_in // shared
        )
        chunks = ceil_div(workload.N + _pad(workload), config["taps_per_chunk"])
        products = 3 if config["arithmetic"].endswith("x3") else 1
        return {
            "blocks": blocks,
            "blocks_per_unit": blocks / limits.units,
            "waves": ceil_div(blocks, resident * limits.units),
            "tail": blocks / limits.units / ceil_div(blocks, limits.units),
            "threads": threads,
            "resident_threads": min(resident, ceil_div(blocks, limits.units)) * threads,
            "shared_bytes": shared,
            "registers": _registers(config),
            "products": products * steps * chunks * config["columns"] / config["tap_groups"],
            "sums": ceil_div(steps, config["tap_groups"] * config["steps_per_sum"]) * chunks,
            "staged_bytes": 4 * blocks * chunks * (tile + 2 * config["taps_per_chunk"]),
            "padded_share": blocks
            * tile
            * 16
            * steps
            * chunks
            / (workload.rows * workload.length * workload.N),
        }


def shared_words(workload: Conv1dWorkload, config: Config) -> int:
    """Return the 32-bit words of a block's shared memory, as ``warpgroup.cu`` lays them out: the
    input's rows, the taps' core matrices and the taps in a line. At the end, the sums of the other
    tap groups are in the same place."""
    steps, outputs = _steps(config), config["columns"] * config["groups"]
    rows = outputs + ceil_div(steps, 4) - 1
    halves = 2 if config["arithmetic"].endswith("x3") else 1
    rows_bytes, cores_bytes = ceil_div(rows, 8) * 1024, 128 * (2 * steps + 7)
    staged = halves * (rows_bytes + cores_bytes + 2 * (16 * steps + 64) + 32) + 16
    summed = (config["tap_groups"] - 1) * outputs * ROWS * 4
    return int(1024 + max(staged, summed)) // 4


def _steps(config: Config) -> int:
    """Return the number of steps of 16 taps in a chunk, a multiple of the tap groups."""
    parts = config["tap_groups"]
    return int(ceil_div(config["taps_per_chunk"] + ROWS - 1, 16 * parts) * parts)


def _threads(config: Config) -> int:
    return int(128 * config["groups"] * config["tap_groups"])


def _tile(config: Config) -> int:
    return int(ROWS * config["columns"] * config["groups"])


def _registers(config: Config) -> int:
    """Return an estimate of a thread's registers: sums and totals, and addresses."""
    return int(config["columns"] + RESERVED_REGISTERS)


def _chunks(workload: Conv1dWorkload) -> list[int]:
    return chunk_lengths(workload.N + _pad(workload), (8,))


def _pad(workload: Conv1dWorkload) -> int:
    """Return how many zero taps are put in front, so that loads of the input are aligned to 16
    bytes."""
    return -workload.left % (4 if workload.dtype == "float32" else 8)
