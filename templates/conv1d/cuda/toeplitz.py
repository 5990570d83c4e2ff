"""CudaToeplitz: the search space of Toeplitz products on tensor cores, by warps, on CUDA."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import arithmetics
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template


class CudaToeplitz(Template[Conv1dWorkload]):
    """The output as a product of a Hankel view of the input and a Toeplitz matrix of 8 columns.

    It runs on tensor cores (``schedules/toeplitz.cu``). A warp holds ``row_tiles`` tiles of 128
    outputs. ``arithmetic`` names the halves into which float32 is split, and says whether the low
    halves are multiplied, too. With ``tail`` "guarded", every step checks whether it is past the
    end; with "peeled", only the steps after the last whole round of fragments check that.
    """

    name = "toeplitz"
    kind = "cuda"
    version = 4
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload ``is_rows``, an arithmetic keeps ``max_error``, and the GPU
        has compute capability 7.5 or later. Earlier tensor cores do not read 8x8 tiles."""
        return (
            limits.kind == "cuda"
            and limits.capability >= 75
            and workload.is_rows
            and bool(arithmetics(workload, workload.N, limits))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("warps", [2, 4, 6, 8, 12, 16])
        space.knob("row_tiles", [1, 2, 3, 4, 5, 6, 8, 10])
        space.knob("taps_per_chunk", chunk_lengths(workload.N, (1,)))
        space.knob("arithmetic", arithmetics(workload, workload.N, limits))
        space.knob("tail", ["guarded", "peeled"])
        space.constraint(
            f"at most {limits.shared_memory} bytes of shared memory",
            lambda c: 4 * shared_words(c) <= limits.shared_memory,
        )
        space.constraint(
            "the registers of a block fit",
            lambda c: _registers(c) <= min(255, limits.registers_per_unit // (32 * c["warps"])),
        )
        space.constraint(
            "a block covers less than twice the output, or is the smallest",
            lambda c: _tile(c) < 2 * workload.length or (c["warps"], c["row_tiles"]) == (2, 1),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "warps": 2,
            "row_tiles": 1,
            "taps_per_chunk": chunk_lengths(workload.N, (1,))[-1],
            "arithmetic": arithmetics(workload, workload.N, limits)[0],
            "tail": "guarded",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        tile, chunk = _tile(config), config["taps_per_chunk"]
        blocks = workload.rows * ceil_div(workload.length, tile)
        shared, registers = 4 * shared_words(config), _registers(config)
        resident = min(
            max(1, limits.registers_per_unit // (registers * 32 * config["warps"])),
            max(1, limits.unit_shared_memory // shared),
        )
        chunks = ceil_div(workload.N, chunk)
        steps = ceil_div(chunk + 7, 16) * chunks
        threads = 32 * config["warps"]
        products = 3 if config["arithmetic"].endswith("x3") else 1
        return {
            "blocks": blocks,
            "blocks_per_unit": blocks / limits.units,
            "waves": ceil_div(blocks, resident * limits.units),
            "tail": blocks / limits.units / ceil_div(blocks, limits.units),
            "resident_threads": min(resident, ceil_div(blocks, limits.units)) * threads,
            "threads": threads,
            "shared_bytes": shared,
            "registers": registers,
            "products": products * steps * config["row_tiles"],
            "loads_per_product": (2 + 4 / config["row_tiles"]) / products,
            "staged_bytes": 4 * blocks * chunks * (tile + 2 * chunk),
            "padded_share": blocks
            * tile
            * 16
            * steps
            / (workload.rows * workload.length * workload.N),
        }


def shared_words(config: Config) -> int:
    """Return the 32-bit words of a block's shared memory, as ``toeplitz.cu`` lays them out."""
    steps = (config["taps_per_chunk"] + 7 + 15) // 16
    x_words = (_tile(config) + 16 * steps) // 2
    w_pitch = ((16 * steps + 16) // 2 + 63) // 32 * 32 + 8
    halves = 2 if config["arithmetic"].endswith("x3") else 1
    return int(halves * x_words + 2 * halves * w_pitch + 2)


def _tile(config: Config) -> int:
    return int(128 * config["warps"] * config["row_tiles"])


def _registers(config: Config) -> int:
    """Return an estimate of a thread's registers: sums and totals, fragments, the elements that it
    stages, and addresses."""
    halves = 2 if config["arithmetic"].endswith("x3") else 1
    tiles = config["row_tiles"]
    steps = (config["taps_per_chunk"] + 7 + 15) // 16
    staged = 4 * ceil_div(_tile(config) + 16 * steps, 128 * config["warps"])
    return int(4 * tiles + max((4 + 4 * halves) * tiles, staged + staged // 4) + 40)
