"""CudaDirect: the search space of the direct sum of one signal on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import resident_blocks
from templates.kernels.shared_memory import shared_bytes
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

REGISTERS_PER_THREAD = 255
MULTIPLES = (4, 32)


class CudaDirect(Template[Conv1dWorkload]):
    """Direct sum of one signal, with the input in shared memory and sums in registers.

    A block of ``threads`` threads stages its input tile with halo in shared memory. A thread holds
    ``outputs_per_thread`` neighbouring sums in registers and takes ``taps_per_step`` taps at a
    time, fully unrolled. ``weights`` are read from shared or directly from global memory.

    With ``staging`` "in turn", a thread waits for each of its staging loads; with "together", it
    issues them all first. With ``stores`` "own", a thread stores its own sums; with "together", the
    block stores them through shared memory, so that neighbouring threads store neighbouring
    outputs.
    """

    name = "direct"
    kind = "cuda"
    version = 4
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return super().applies(workload, limits) and workload.is_basic

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("threads", [32, 64, 128, 256, 512])
        # 4·odd: a lane stride of 8 or 16 floats would conflict in shared memory
        space.knob("outputs_per_thread", [1, 2, 3, 4, 5, 6, 8, 12, 20, 28])
        space.knob("taps_per_step", [t for t in (1, 2, 4, 8, 16, 32, 64) if t < 2 * workload.N])
        space.knob("taps_per_chunk", chunk_lengths(workload.N, MULTIPLES))
        space.knob("weights", ["shared", "global"])
        space.knob("staging", ["in turn", "together"])
        space.knob("stores", ["own", "together"])
        space.constraint(
            f"at most {limits.threads_per_block} threads a block",
            lambda c: c["threads"] <= limits.threads_per_block,
        )
        space.constraint(
            "taps_per_step divides taps_per_chunk",
            lambda c: c["taps_per_chunk"] % c["taps_per_step"] == 0,
        )
        space.constraint(
            f"at most {limits.shared_memory_per_block} bytes of shared memory",
            lambda c: _shared_bytes(c) <= limits.shared_memory_per_block,
        )
        space.constraint(
            f"about {REGISTERS_PER_THREAD} registers a thread at most",
            lambda c: _registers(c) <= REGISTERS_PER_THREAD,
        )
        space.constraint(
            "at most 2048 multiply-adds unrolled",
            lambda c: c["outputs_per_thread"] * c["taps_per_step"] <= 2048,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        chunk = chunk_lengths(workload.N, MULTIPLES)[0]
        return {
            "template": self.name,
            "threads": 128,
            "outputs_per_thread": 4 if workload.flops > 2**28 else 1,
            "taps_per_step": max(
                t for t in (1, 2, 4, 8, 16) if chunk % t == 0 and t < 2 * workload.N
            ),
            "taps_per_chunk": chunk,
            "weights": "shared",
            "staging": "in turn",
            "stores": "own",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        tile = config["threads"] * config["outputs_per_thread"]
        blocks = ceil_div(workload.length, tile)
        shared, registers = _shared_bytes(config), _registers(config)
        resident = resident_blocks(
            config["threads"], registers, limits, limits.unit_shared_memory // max(1, shared)
        )
        chunks = ceil_div(workload.N, config["taps_per_chunk"])
        taps = chunks * config["taps_per_chunk"]
        return {
            "blocks": blocks,
            "blocks_per_unit": blocks / limits.units,
            "waves": ceil_div(blocks, resident * limits.units),
            "tail": blocks / limits.units / ceil_div(blocks, limits.units),
            "resident_threads": min(resident, ceil_div(blocks, limits.units)) * config["threads"],
            "shared_bytes": shared,
            "registers": registers,
            "work_per_thread": config["outputs_per_thread"] * workload.N,
            "unrolled": config["outputs_per_thread"] * config["taps_per_step"],
            "bank_conflict": _bank_conflict(config["outputs_per_thread"]),
            "loads_per_fma": (config["outputs_per_thread"] + 2 * config["taps_per_step"])
            / (config["outputs_per_thread"] * config["taps_per_step"]),
            "padded_share": blocks * tile * taps / (workload.length * workload.N),
            "staged_bytes": 4 * blocks * (tile + taps),
            "staged_together": config["staging"] == "together",
            "stored_together": config["stores"] == "together",
        }


def _shared_bytes(config: Config) -> int:
    tile, chunk = config["threads"] * config["outputs_per_thread"], config["taps_per_chunk"]
    weights = [chunk] if config["weights"] == "shared" else []
    return shared_bytes(tile + chunk - 1, *weights)


def _registers(config: Config) -> int:
    """Return an estimate of a thread's registers: sums (twice, for the chunk and the total), staged
    inputs, weights and addresses."""
    r, t = config["outputs_per_thread"], config["taps_per_step"]
    return int(2 * r + (r + t) + min(t, 32) + 24)


def _bank_conflict(stride: int) -> int:
    """Return how many lanes of a quarter warp use the same bank of shared memory, if their 16-byte
    loads are ``stride`` floats apart."""
    lanes = [(lane * stride // 4) % 8 for lane in range(8)] if stride % 4 == 0 else [0]
    return max(lanes.count(bank) for bank in lanes)
