"""CudaSignalsToeplitz: the search space of warpgroup products for signals that share long kernels,
on CUDA."""

from __future__ import annotations

from templates.arithmetic import TENSOR_CORES
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.fft import has_contiguous_rows
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

SIGNALS = 64
"""Signals of a block, which are the rows of the matrix instruction."""
FEWEST_SIGNALS = 16
"""With fewer signals, most of these rows are empty."""
FEWEST_TAPS = 48
"""With fewer taps, other templates are limited by memory alone."""
CHUNK = 64  # samples of a signal that are staged at a time
RESERVED_REGISTERS = 32


class CudaSignalsToeplitz(Template[Conv1dWorkload]):
    """64 signals of a channel times the Toeplitz matrix of its kernel, on tensor cores.

    The matrix instructions of whole warpgroups read both operands from shared memory
    (``schedules/signals_toeplitz.cu``). Each of a block's ``groups`` warpgroups sums ``columns``
    outputs of each signal. Samples come through ``stages`` buffers. Registers are limited so that
    ``resident`` blocks fit on a unit.
    """

    name = "signals_toeplitz"
    kind = "cuda"
    version = 3
    arithmetic = TENSOR_CORES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload ``has_contiguous_rows``, 16 bits and at least 16 signals and
        48 taps, and the GPU has compute capability 9.0, the only one with these instructions."""
        return (
            super().applies(workload, limits)
            and limits.arch == "sm_90"
            and workload.dtype != "float32"
            and has_contiguous_rows(workload)
            and workload.B >= FEWEST_SIGNALS
            and workload.N >= FEWEST_TAPS
            and _fits(workload, _least(), limits)
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("columns", [64, 96, 128, 160, 192, 256])
        space.knob("groups", [1, 2, 3, 4])
        space.knob("stages", [3, 4, 5, 6, 8])
        space.knob("resident", [1, 2, 3, 4])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "every warpgroup has outputs",
            lambda c: c["groups"] == 1 or c["columns"] * (c["groups"] - 1) < workload.length,
            reads=("columns", "groups"),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: _registers(c) * threads(c) * c["resident"] <= limits.registers_per_unit,
            reads=("columns", "groups", "resident"),
        )
        space.constraint(
            "the resident blocks fit into shared memory",
            lambda c: _fits(workload, c, limits),
            reads=("columns", "groups", "stages", "resident"),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        wide = {"template": self.name, **_least(), "columns": 128, "groups": 2, "resident": 2}
        return wide if wide in self.space(workload, limits) else {"template": self.name, **_least()}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        count, shared = blocks(workload, config), 4 * shared_words(workload, config)
        resident = min(
            max(1, limits.registers_per_unit // (_registers(config) * threads(config))),
            max(1, limits.shared_memory // shared),
        )
        steps = ceil_div(min(workload.M, config["columns"] + workload.N - 1), 16)  # at most
        span = config["columns"] * config["groups"]
        return {
            **occupancy(count, threads(config), resident, limits),
            "least_resident_threads": config["resident"] * threads(config),
            "shared_bytes": shared,
            "registers": _registers(config),
            "columns": config["columns"],
            "products": steps * span,
            "samples_in_flight": CHUNK * (config["stages"] - 2),
            "staged_bytes": count * SIGNALS * 2 * min(workload.M, span + workload.N - 1),
            "padded_share": count * SIGNALS * span / workload.output.elements,
            "streaming": config["stores"] == "streaming",
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    spans = ceil_div(workload.length, config["columns"] * config["groups"])
    return workload.out_channels * ceil_div(workload.B, SIGNALS) * spans


def threads(config: Config) -> int:
    return int(128 * config["groups"])


def cores(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of matrices of 8 by 8 taps, as ``signals_toeplitz.cu`` counts them."""
    span, left = config["columns"] * config["groups"], workload.left
    return int((left + span + 70) // 8 + max(0, span - left + workload.N + 62) // 8 + 1)


def shared_words(workload: Conv1dWorkload, config: Config) -> int:
    """Return the 32-bit words of a block's shared memory: chunks, at a multiple of 1024 bytes,
    cores and taps."""
    of_cores = cores(workload, config)
    size = 1024 + config["stages"] * SIGNALS * CHUNK * 2 + of_cores * 128 + 2 * (8 * of_cores + 16)
    return int(ceil_div(size, 4))


def _least() -> Config:
    return {"columns": 64, "groups": 1, "stages": 3, "resident": 1, "stores": "cached"}


def _fits(workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> bool:
    return bool(4 * shared_words(workload, config) * config["resident"] <= limits.shared_memory)


def _registers(config: Config) -> int:
    return int(config["columns"] // 2 + RESERVED_REGISTERS)
