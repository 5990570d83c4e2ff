"""CudaBlocks: the search space around seed 001's Triton kernel, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

REGISTERS_PER_THREAD = 255
MAX_UNROLLED = 512


class CudaBlocks(Template[Conv1dWorkload]):
    """Direct sum of one signal, structured as a Triton kernel.

    A block of ``outputs_per_block`` outputs takes ``taps_per_step`` taps at a time. It reads
    everything through the caches and uses no shared memory. The outputs of a thread are
    ``threads`` apart, so that neighbouring threads read neighbouring samples.
    """

    name = "blocks"
    kind = "cuda"
    version = 3
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return super().applies(workload, limits) and workload.is_basic

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("outputs_per_block", [32, 64, 128, 256, 512, 1024, 2048, 4096])
        space.knob("taps_per_step", [t for t in (1, 2, 4, 8, 16, 32) if t < 2 * workload.N])
        space.knob("threads", [32, 64, 128, 256, 512])
        space.constraint(
            f"at most {limits.threads_per_block} threads a block, and no more than it has outputs",
            lambda c: c["threads"] <= min(limits.threads_per_block, c["outputs_per_block"]),
        )
        space.constraint(
            f"about {REGISTERS_PER_THREAD} registers a thread at most, and those of a block fit",
            lambda c: (
                _registers(c)
                <= min(REGISTERS_PER_THREAD, limits.registers_per_unit // c["threads"])
            ),
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled",
            lambda c: _each(c) * c["taps_per_step"] <= MAX_UNROLLED,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "outputs_per_block": 256,
            "taps_per_step": max(t for t in (1, 2, 4) if t < 2 * workload.N),
            "threads": 128,
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        outputs, threads, each = config["outputs_per_block"], config["threads"], _each(config)
        step = config["taps_per_step"]
        blocks, registers = ceil_div(workload.length, outputs), _registers(config)
        resident = resident_blocks(threads, registers, limits)
        chunk = taps_per_chunk(workload, config)
        taps = ceil_div(workload.N, chunk) * chunk
        return {
            **occupancy(blocks, threads, resident, limits),
            "shared_bytes": 0,
            "registers": registers,
            "outputs_per_thread": each,
            "unrolled": each * step,
            "work_per_thread": each * workload.N,
            "padded_share": blocks * outputs * taps / (workload.length * workload.N),
            "read_bytes": 4 * blocks * (outputs + taps),
        }


def taps_per_chunk(workload: Conv1dWorkload, config: Config) -> int:
    return chunk_lengths(workload.N, (config["taps_per_step"],))[0]


def _each(config: Config) -> int:
    return int(config["outputs_per_block"] // config["threads"])


def _registers(config: Config) -> int:
    """Return an estimate of a thread's registers: sums (twice, for the chunk and the total), inputs
    that are being loaded, weights and addresses."""
    each, step = _each(config), config["taps_per_step"]
    return int(2 * each + min(each * step, 32) + step + 32)
